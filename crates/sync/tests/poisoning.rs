//! A panic behind a lock leaves what it is for usable.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use verimount_sync::{Condvar, Mutex, RwLock};

#[test]
fn a_panic_does_not_poison() {
    let (mutex, lock, changed) = (Mutex::new(1), RwLock::new(1), Condvar::new());
    let panics = AssertUnwindSafe(|| {
        let _held = (mutex.lock(), lock.write());
        panic!("while both are held");
    });
    catch_unwind(panics).unwrap_err();
    assert_eq!(*lock.read(), 1);
    *lock.write() += 1;
    assert_eq!(*lock.read(), 2);
    *mutex.try_lock().unwrap() += 1;
    let moment = Duration::from_millis(1);
    let waited = changed.wait_timeout(mutex.lock(), moment);
    assert!(mutex.try_lock().is_none());
    let waited = changed.wait_timeout_while(waited, moment, |_| true);
    assert_eq!(*changed.wait_while(waited, |value| *value != 2), 2);
    assert_eq!(mutex.into_inner(), 2);
}
