//! Setters of options.

/// Declares setters in an `impl` of options: each takes the options by value, and returns them with one field changed.
///
/// ```
/// #[derive(Default)]
/// pub struct Options {
///     is_quick: bool,
///     size: Option<u64>,
/// }
///
/// impl Options {
///     verimount_content::setters! {
///         /// Whether it is quick.
///         quick: bool => is_quick;
///         /// Its size in bytes, if it is limited.
///         size: impl Into<Option<u64>> => size;
///     }
/// }
///
/// assert_eq!(Options::default().quick(true).size(7).size, Some(7));
/// ```
#[macro_export]
macro_rules! setters {
    ($($(#[$attribute:meta])* $name:ident: $type:ty => $($field:ident).+;)*) => {$(
        $(#[$attribute])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.$($field).+ = $name.into();
            self
        }
    )*};
}
