/// Declares an enumeration whose values have names. `ALL` has each value, in this order; `name` gives its name, and it is
/// displayed as that.
///
/// ```
/// verimount_names::named! {
///     /// How a file is compressed.
///     #[derive(Clone, Copy)]
///     pub enum Compression {
///         /// By `gzip`.
///         Gzip = "gzip",
///         /// By `zstd`.
///         Zstd = "zstd",
///     }
/// }
/// assert_eq!(Compression::ALL.map(Compression::name), ["gzip", "zstd"]);
/// assert_eq!(Compression::Gzip.to_string(), "gzip");
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $visibility:vis enum $enumeration:ident {
            $($(#[$value_attribute:meta])* $value:ident = $name:literal,)*
        }
    ) => {
        $(#[$attribute])*
        $visibility enum $enumeration {
            $($(#[$value_attribute])* $value,)*
        }

        impl $enumeration {
            /// Each of them.
            $visibility const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// Its name.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }

        impl ::std::fmt::Display for $enumeration {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
