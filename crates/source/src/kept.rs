use std::hash::Hash;

use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter, sync::DefaultLifecycle};

/// Keeps what was used last, up to a number of bytes.
pub type Kept<K, V, W> = quick_cache::sync::Cache<K, V, W>;

/// A [`Kept`] with nothing yet, and room for `bytes` bytes of what usually takes `usual` bytes each.
///
/// By default, the bytes would be divided among four times as many shards as there are processors, and what does not fit into
/// its shard would not be kept at all. Here there is one shard on any machine. Its lock is held for a look-up only, which is
/// little beside what is done with what was found.
pub fn keep<K, V, W>(bytes: u64, usual: u64, weighter: W) -> Kept<K, V, W>
where
    K: Eq + Hash,
    V: Clone,
    W: Weighter<K, V> + Clone,
{
    let count = bytes.checked_div(usual).unwrap_or_default();
    let options = OptionsBuilder::new()
        .estimated_items_capacity(usize::try_from(count).unwrap_or(usize::MAX))
        .weight_capacity(bytes)
        .shards(1)
        .build();
    let options = options.expect("both capacities are given");
    Kept::with_options(
        options,
        weighter,
        DefaultHashBuilder::default(),
        DefaultLifecycle::default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct ByValue;

    impl Weighter<u64, u64> for ByValue {
        fn weight(&self, _: &u64, value: &u64) -> u64 {
            *value
        }
    }

    /// On one processor as on many: what nearly fills it is kept, and never more than there is room for.
    #[test]
    fn all_room_is_for_anything() {
        const BYTES: u64 = 64 << 20;
        let kept = keep(BYTES, 64 << 10, ByValue);
        let values = [BYTES / 10 * 9, 4096, BYTES / 3, BYTES / 5];
        for (key, value) in (0..1000).zip(values.into_iter().cycle()) {
            kept.insert(key, value);
            assert_eq!(kept.get(&key), Some(value), "{value}");
            assert!(kept.weight() <= BYTES);
        }
    }
}
