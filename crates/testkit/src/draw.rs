//! What random cases are made of, drawn from their bytes.

use std::{
    env,
    hash::{BuildHasher, Hasher, RandomState},
    iter,
    ops::RangeInclusive,
};

use arbtest::{
    arbitrary::{Result, Unstructured},
    arbtest,
};

/// The variable with the seed of the only case to try.
const SEED: &str = "ARBTEST_SEED";

/// Tries a property that takes long with so many random cases, which are drawn from so many bytes each. A failure prints the
/// seed of its case. (What takes microseconds is tried by `arbtest` itself, for a tenth of a second.)
///
/// # Panics
/// If the property does, or has too few bytes.
pub fn cases(
    count: u32,
    bytes: u32,
    mut property: impl FnMut(&mut Unstructured<'_>) -> Result<()>,
) {
    if env::var_os(SEED).is_some() {
        return arbtest(property).run();
    }
    for _ in 0..count {
        let random = RandomState::new().build_hasher().finish();
        // The lower half is the number of bytes.
        let seed = random << u32::BITS | u64::from(bytes);
        arbtest(&mut property).seed(seed).run();
    }
}

/// Things of one kind, as many as `count` allows.
pub fn several<'a, T>(
    u: &mut Unstructured<'a>,
    count: RangeInclusive<usize>,
    mut thing: impl FnMut(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = u.int_in_range(count)?;
    iter::repeat_with(|| thing(u)).take(count).collect()
}

/// Makes a thing of one of several kinds.
type Maker<'a, T> = &'a dyn Fn(&mut Unstructured<'_>) -> Result<T>;

/// A thing of one of these kinds, each of which has as many turns as the number before it says.
pub fn weighted<T>(u: &mut Unstructured<'_>, kinds: &[(usize, Maker<'_, T>)]) -> Result<T> {
    let turns = kinds
        .iter()
        .flat_map(|(turns, make)| iter::repeat_n(make, *turns));
    let chosen = u.choose_index(turns.clone().count())?;
    let mut from_chosen = turns.skip(chosen);
    let make = from_chosen.next().expect("one of the turns was chosen");
    make(u)
}

/// A name of at most so many bytes as hardly any file has: of any bytes, also those that are no text.
pub fn odd_name(u: &mut Unstructured<'_>, most: usize) -> Result<Vec<u8>> {
    let name = several(u, 1..=most, |u| {
        if u.arbitrary()? {
            u.int_in_range(1..=b'/' - 1)
        } else {
            u.int_in_range(b'/' + 1..=u8::MAX)
        }
    })?;
    let is_taken = matches!(&*name, b"." | b"..");
    Ok(if is_taken { b"...".to_vec() } else { name })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cases_are_as_many_as_wanted_and_differ() {
        let mut seen = HashSet::new();
        cases(20, 16, |u| {
            assert_eq!(u.len(), 16);
            seen.insert(u.arbitrary::<u128>()?);
            Ok(())
        });
        assert_eq!(seen.len(), 20);
    }

    #[test]
    #[should_panic(expected = "the tenth")]
    fn a_case_that_fails_ends_the_test() {
        let mut tried = 0;
        cases(20, 16, |_| {
            tried += 1;
            assert!(tried < 10, "the tenth");
            Ok(())
        });
    }

    #[test]
    fn each_kind_has_its_turns() {
        let bytes: Vec<u8> = (0..8).collect();
        let mut u = Unstructured::new(&bytes);
        let mut draw = || weighted(&mut u, &[(1, &|_| Ok('a')), (3, &|_| Ok('b'))]);
        let drawn: String = iter::repeat_with(|| draw().unwrap()).take(9).collect();
        // Without bytes it is the first one.
        assert_eq!(drawn, "abbbabbba");
    }

    #[test]
    fn there_are_as_many_as_allowed() {
        for byte in 0..=u8::MAX {
            let bytes = [byte, 5, 6];
            let mut u = Unstructured::new(&bytes);
            let drawn: Vec<u8> = several(&mut u, 1..=2, Unstructured::arbitrary).unwrap();
            assert_eq!(drawn, [5, 6][..1 + usize::from(byte) % 2]);
        }
    }

    #[test]
    fn odd_names_are_names() {
        arbtest(|u| {
            let name = odd_name(u, 3)?;
            assert!(name.len() <= 3 && !name.is_empty(), "{name:?}");
            assert!(!name.contains(&0) && !name.contains(&b'/'), "{name:?}");
            assert!(name != b"." && name != b"..");
            Ok(())
        })
        .size_max(32);
    }
}
