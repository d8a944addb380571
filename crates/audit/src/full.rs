use verimount_names::named;

named! {
    /// What becomes of a request whose lines the target does not take now.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Full {
        /// It waits, and fails when it has waited for too long.
        #[default]
        Wait = "wait",
        /// It fails at once.
        Deny = "deny",
        /// It goes on. Its lines are counted as lost.
        Drop = "drop",
    }
}
