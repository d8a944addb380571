/// What a test needs; it ends if there is none, which has been noted.
#[macro_export]
macro_rules! needs {
    ($something:expr) => {
        match $crate::Needed::met($something) {
            Some(it) => it,
            None => return,
        }
    };
}

/// What may be missing here.
pub trait Needed {
    /// What it is if it is there.
    type It;

    /// It, if it is there.
    fn met(self) -> Option<Self::It>;
}

impl Needed for bool {
    type It = ();

    fn met(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Needed for Option<T> {
    type It = T;

    fn met(self) -> Self {
        self
    }
}
