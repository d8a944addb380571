/// Declares statistics, which are numbers, and their counters: an atomic number for each, all 0 at first.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
///
/// verimount_source::counters! {
///     /// What was sent so far.
///     #[derive(Debug, PartialEq, Eq)]
///     pub struct SendStats {
///         /// Messages.
///         messages,
///         /// Bytes of all messages.
///         bytes,
///     }
///     /// Counts what is sent.
///     struct Counters;
/// }
///
/// let counters = Counters::default();
/// counters.bytes.fetch_add(10, Relaxed);
/// assert_eq!(counters.stats(), SendStats { messages: 0, bytes: 10 });
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$attribute:meta])*
        pub struct $statistics:ident {
            $($(#[$number_attribute:meta])* $number:ident,)*
        }
        $(#[$counters_attribute:meta])*
        $visibility:vis struct $counters:ident;
    ) => {
        $(#[$attribute])*
        pub struct $statistics {
            $($(#[$number_attribute])* pub $number: u64,)*
        }

        $(#[$counters_attribute])*
        #[derive(Debug, Default)]
        $visibility struct $counters {
            $(pub(crate) $number: ::std::sync::atomic::AtomicU64,)*
        }

        impl $counters {
            /// What was counted so far.
            $visibility fn stats(&self) -> $statistics {
                $statistics {
                    $($number: self.$number.load(::std::sync::atomic::Ordering::Relaxed),)*
                }
            }
        }
    };
}
