use std::collections::HashMap;

use rustix::process::geteuid;

/// Divides a limited resource among users, who are identified by their user ids.
///
/// A user gets more as long as they then hold no more than half of what is left. So the first user gets
/// at most a third of the total and the next one a third of the rest. Something always remains for users
/// who hold little, and the number of users need not be known in advance.
///
/// Root and the user of this process are not limited and not counted: the kernel's own requests have
/// root's user id.
#[derive(Debug)]
pub struct Shares {
    left: usize,
    held: HashMap<u32, usize>,
    /// The user of this process.
    owner: u32,
}

impl Shares {
    /// Divides `total`, in any unit.
    pub fn new(total: usize) -> Self {
        Self {
            left: total,
            held: HashMap::new(),
            owner: geteuid().as_raw(),
        }
    }

    /// Takes `amount` for a user, if they get it; returns whether they do.
    #[must_use]
    pub fn take(&mut self, uid: u32, amount: usize) -> bool {
        debug_assert!(amount > 0, "who holds nothing is not kept");
        let is_fair = self.can_take(uid, amount);
        if is_fair && !self.is_unlimited(uid) {
            self.left -= amount;
            *self.held.entry(uid).or_default() += amount;
        }
        is_fair
    }

    /// Whether a user would get `amount`.
    pub(crate) fn can_take(&self, uid: u32, amount: usize) -> bool {
        let left = self.left.checked_sub(amount);
        let is_fair = |left| self.held(uid) + amount <= left / 2;
        self.is_unlimited(uid) || left.is_some_and(is_fair)
    }

    /// Returns `amount` of what a user got from [`Self::take`].
    pub fn give_back(&mut self, uid: u32, amount: usize) {
        if self.is_unlimited(uid) {
            return;
        }
        debug_assert!(amount <= self.held(uid), "more is returned than was taken");
        self.left += amount;
        match self.held(uid).saturating_sub(amount) {
            0 => self.held.remove(&uid),
            held => self.held.insert(uid, held),
        };
    }

    /// How much a user holds.
    pub(crate) fn held(&self, uid: u32) -> usize {
        self.held.get(&uid).copied().unwrap_or(0)
    }

    /// Whether a user is not limited.
    pub(crate) fn is_unlimited(&self, uid: u32) -> bool {
        uid == 0 || uid == self.owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user id other than that of the user who runs the tests.
    const FIRST: u32 = 4_000_000_000;

    /// Takes units for a user until they get no more; returns how many.
    fn take_all(shares: &mut Shares, uid: u32) -> usize {
        let mut taken = 0;
        while shares.take(uid, 1) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn each_user_gets_a_third_of_the_rest() {
        let mut shares = Shares::new(900);
        assert_eq!(take_all(&mut shares, FIRST), 300);
        assert_eq!(take_all(&mut shares, FIRST + 1), 200);
        assert_eq!(take_all(&mut shares, FIRST + 2), 133);
        assert_eq!(take_all(&mut shares, FIRST), 0);
    }

    #[test]
    fn returned_units_can_be_taken_again() {
        let mut shares = Shares::new(30);
        assert_eq!(take_all(&mut shares, FIRST), 10);
        shares.give_back(FIRST, 10);
        assert_eq!(shares.held(FIRST), 0);
        assert!(shares.held.is_empty());
        assert!(shares.take(FIRST, 10));
        assert!(!shares.take(FIRST, 1));
        assert!(!shares.take(FIRST, usize::MAX));
    }

    #[test]
    fn root_is_not_counted() {
        let mut shares = Shares::new(3);
        for _ in 0..10 {
            assert!(shares.take(0, 1));
        }
        assert!(shares.take(FIRST, 1));
        shares.give_back(0, 10);
        assert!(!shares.take(FIRST, 1));
    }
}
