//! What Linux makes of access control lists.

use std::{
    fs::{File, Permissions as FilePermissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use rustix::{
    fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr},
    io::Errno,
};
use verimount_testkit::{Random, skip};
use verimount_tree::{ACCESS_LIST, AccessList, Permissions, Rights, Who};

/// Users and groups that are named.
const IDS: [u32; 3] = [1, 1234, 4_000_000_000];

/// Some list, often a minimal one or one without a mask.
fn some_list(random: &mut Random) -> Vec<(Who, Rights)> {
    let mut list = vec![Who::Owner, Who::OwningGroup, Who::Others];
    list.extend(
        IDS.map(Who::User)
            .into_iter()
            .filter(|_| random.below(4) == 0),
    );
    list.extend(
        IDS.map(Who::Group)
            .into_iter()
            .filter(|_| random.below(4) == 0),
    );
    if random.coin() {
        list.push(Who::Mask);
    }
    let rights = list.into_iter().map(|who| {
        let bits = random.below(8) as u16;
        (who, Rights::from_bits(bits).unwrap())
    });
    rights.collect()
}

/// What a file has: its list only if it says more than the mode.
type ModeAndList = (u32, Option<Vec<u8>>);

/// A file that has had no list, to set some on.
struct Listed(File);

impl Listed {
    fn new() -> Self {
        Self(tempfile::tempfile().unwrap())
    }

    /// What Linux makes of a file of this mode when this list is set; `None` where there are no lists.
    fn set(&self, mode: u32, list: &[u8]) -> Option<Result<ModeAndList, Errno>> {
        let Self(file) = self;
        let _ = fremovexattr(file, ACCESS_LIST);
        file.set_permissions(FilePermissions::from_mode(mode))
            .unwrap();
        match fsetxattr(file, ACCESS_LIST, list, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) if self.has_none() => {
                skip("no access control lists here");
                return None;
            }
            Err(error) => return Some(Err(error)),
            Ok(()) => {}
        }
        let mut value = vec![0; 1 << 16];
        let list = match fgetxattr(file, ACCESS_LIST, &mut value[..]) {
            Err(Errno::NODATA) => None,
            len => {
                value.truncate(len.unwrap());
                Some(value)
            }
        };
        Some(Ok((file.metadata().unwrap().mode() & 0o7777, list)))
    }

    fn has_none(&self) -> bool {
        fgetxattr(&self.0, ACCESS_LIST, &mut [0_u8; 0][..]) == Err(Errno::OPNOTSUPP)
    }
}

/// The authority is the kernel of the machine that runs this: it sets the list, and `stat` shows the mode.
#[test]
fn a_list_decides_the_mode_as_in_linux() {
    let file = Listed::new();
    for seed in 0..2000 {
        let random = &mut Random::new(seed);
        let entries = some_list(random);
        let list = AccessList::new(entries.clone()).unwrap();
        let mode = random.below(0o10000) as u32;
        let Some(set) = file.set(mode, &list.encode()) else {
            return;
        };
        let (permissions, kept) = list.set_on(Permissions::new(mode));
        let ours = (permissions.bits().into(), kept.map(|list| list.encode()));
        assert_eq!(Ok(ours), set, "{mode:o} {entries:?}");
    }
}

/// The masks are those that `setfacl` 2.3.1 gives files with the mode 0640:
/// `setfacl -m u:1234:-w-,g:5:--x FILE; getfacl -n FILE`, and the same with `u:1234:r--`, and with `m::--x`.
#[test]
fn a_missing_mask_is_that_of_setfacl() {
    let base = [
        (Who::Owner, Rights::READ | Rights::WRITE),
        (Who::OwningGroup, Rights::READ),
        (Who::Others, Rights::empty()),
    ];
    let (user, group) = (Who::User(1234), Who::Group(5));
    for (named, mode) in [
        (
            &[(user, Rights::WRITE), (group, Rights::EXECUTE)][..],
            0o670,
        ),
        (&[(user, Rights::READ)], 0o640),
        (&[(user, Rights::READ), (Who::Mask, Rights::EXECUTE)], 0o610),
        (&[(Who::Mask, Rights::EXECUTE)], 0o610),
        (&[], 0o640),
    ] {
        let list = AccessList::new(base.into_iter().chain(named.iter().copied())).unwrap();
        let (permissions, kept) = list.set_on(Permissions::new(0o4000));
        assert_eq!(permissions.bits(), 0o4000 | mode, "{named:?}");
        assert_eq!(kept.is_none(), named.is_empty());
    }
}

/// The value of an attribute with entries of tag, permissions and id.
fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// So does the kernel, which is asked.
#[test]
fn what_is_no_list_is_refused() {
    let (owner, group, others) = ((1, 6, !0), (4, 4, !0), (0x20, 0, !0));
    let (user, mask) = ((2, 4, 1234), (0x10, 4, !0));
    let good = value(&[owner, user, group, mask, others]);
    let other_version = [&[3], &good[1..]].concat();
    let file = Listed::new();
    for wrong in [
        &other_version[..],
        &good[..3],
        &good[..good.len() - 1],
        &value(&[owner, user, group, mask]),
        &value(&[owner, group, group, others]),
        &value(&[owner, user, group, mask, mask, others]),
        &value(&[(1, 8, !0), group, others]),
        &value(&[owner, (2, 4, !0), group, mask, others]),
        &value(&[owner, (3, 4, 1234), group, mask, others]),
    ] {
        assert!(AccessList::decode(wrong).is_err(), "{wrong:?}");
        let Some(set) = file.set(0o640, wrong) else {
            return;
        };
        assert!(set.is_err(), "{wrong:?}");
    }
    let nobody = value(&[]);
    assert_eq!(AccessList::decode(&nobody), Ok(None));
    assert_eq!(file.set(0o640, &nobody), Some(Ok((0o640, None))));
    // The first entry of a user counts, and all are kept.
    let twice = value(&[owner, user, (2, 0, 1234), group, mask, others]);
    let decoded = AccessList::decode(&twice).unwrap().unwrap();
    assert_eq!(decoded.encode(), twice);
    assert_eq!(file.set(0o640, &twice), Some(Ok((0o640, Some(twice)))));
}

/// What a user may do with a file, by its list or, without one, its permissions: acl(5), and the kernel, which looks at no list
/// if the group has no rights.
fn access(list: &[(Who, Rights)], mode: u32, user: Option<u32>, groups: &[Who]) -> Rights {
    let class = |shift: u32| Rights::from_bits((mode >> shift & 7) as u16).unwrap();
    let entry = |who: Who| list.iter().find(|(found, _)| *found == who);
    let mask = entry(Who::Mask).map_or(Rights::all(), |(_, mask)| *mask);
    let is_asked = !list.is_empty() && mode & 0o070 != 0;
    let named = user.and_then(|user| entry(Who::User(user)));
    if let Some((_, rights)) = named.filter(|_| is_asked) {
        return rights.intersection(mask);
    }
    let own = groups.iter().filter(|group| match group {
        Who::OwningGroup => true,
        group => is_asked && entry(**group).is_some(),
    });
    let rights = own.map(|group| {
        if is_asked {
            entry(*group).unwrap().1.intersection(mask)
        } else {
            class(3)
        }
    });
    rights.reduce(Rights::union).unwrap_or(class(0))
}

#[test]
fn who_loses_a_list_gains_nothing() {
    for seed in 0..2000 {
        let random = &mut Random::new(seed);
        let mut entries = some_list(random);
        let list = AccessList::new(entries.clone()).unwrap();
        let (permissions, kept) = list.set_on(Permissions::new(0));
        let Some(kept) = kept else {
            continue;
        };
        let before = u32::from(permissions.bits());
        if !entries.iter().any(|(who, _)| *who == Who::Mask) {
            let mask = Rights::from_bits((before >> 3 & 7) as u16).unwrap();
            entries.push((Who::Mask, mask));
        }
        let after = AccessList::removed_from(permissions, &kept.encode())
            .bits()
            .into();
        for user in [None, Some(IDS[0]), Some(IDS[1])] {
            for groups in [
                &[][..],
                &[Who::OwningGroup],
                &[Who::Group(IDS[0])],
                &[Who::Group(IDS[0]), Who::Group(IDS[1])],
                &[Who::OwningGroup, Who::Group(IDS[1])],
            ] {
                let with = access(&entries, before, user, groups);
                let without = access(&[], after, user, groups);
                assert!(with.contains(without), "{entries:?} {before:o} {after:o}");
            }
        }
    }
}

#[test]
fn a_lost_list_takes_no_more_than_it_must() {
    let list = |text: &[(u16, u16, u32)]| value(text);
    let (owner, group, mask, others) = ((1, 7, !0), (4, 5, !0), (0x10, 7, !0), (0x20, 4, !0));
    for (list, mode, left) in [
        // The mask is not what the group may do.
        (
            list(&[owner, (2, 7, 1234), group, mask, others]),
            0o4774,
            0o4754,
        ),
        (
            list(&[owner, (2, 7, 1234), (4, 0, !0), mask, others]),
            0o774,
            0o704,
        ),
        // Who may do less than others would be one of them.
        (
            list(&[owner, (2, 0, 1234), group, mask, others]),
            0o774,
            0o700,
        ),
        (
            list(&[owner, group, (8, 0, 1234), mask, others]),
            0o774,
            0o750,
        ),
        (list(&[owner, group, others]), 0o754, 0o754),
        (value(&[]), 0o1777, 0o1777),
        (vec![], 0o777, 0o777),
        // Linux gives only the owner access, but looks at no list if the group has no rights.
        (vec![1], 0o2777, 0o2700),
        (vec![1], 0o2707, 0o2707),
    ] {
        let permissions = AccessList::removed_from(Permissions::new(mode), &list);
        assert_eq!(permissions.bits(), left, "{list:?}");
    }
}
