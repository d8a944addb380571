/// Where content comes from, in such a way that whoever may read it may read all that comes from there.
pub(crate) struct ContentOrigin {
    pub(crate) name: String,
    /// Whether the content was found there, and not in the cache or elsewhere.
    pub(crate) has_it: bool,
}

impl ContentOrigin {
    /// What has this name, which no other origin has.
    pub(crate) fn new(name: String) -> Self {
        Self { name, has_it: true }
    }

    /// For content that may not be there: it does not become what others from there are shared with. Otherwise who only
    /// knows the digest of content that needs credentials could have it count as that of any server.
    #[must_use]
    pub(crate) fn if_found(self, has_it: bool) -> Self {
        Self { has_it, ..self }
    }
}
