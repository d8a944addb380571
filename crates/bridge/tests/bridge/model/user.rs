//! The operations of a user, each judged by what the world says.

use rustix::{
    fs::{FileType, OFlags, RenameFlags},
    io::{Errno, ReadWriteFlags},
};
use verimount_bridge::{Caller, NewFile, SetAttr, policy::Access};
use verimount_testkit::Random;

use super::{
    case::{Denials, denies},
    locks::{Key, Locked},
    places::{DIRECTORIES, DIRECTORY_NAMES, FILES, FREE, MOVED},
    world::{Expected, Found, Place, World},
};
use crate::records::Asked;

/// How many files and directories a user keeps in mind.
const KEPT: usize = 4;

pub(super) struct User<'a> {
    world: &'a World<'a>,
    uid: u32,
    dice: Random,
    /// Files that were looked up earlier: the kernel does not look up each name again.
    files: Vec<Found>,
    /// Directories that the user is in, wherever they are moved.
    directories: Vec<Found>,
}

impl<'a> User<'a> {
    pub(super) fn new(world: &'a World<'a>, uid: u32, seed: u64) -> Self {
        Self {
            world,
            uid,
            dice: Random::new(seed),
            files: Vec::new(),
            directories: Vec::new(),
        }
    }

    /// Does a random operation. Returns whether it had an effect.
    pub(super) fn step(&mut self) -> bool {
        let _operation = self.world.operation();
        while self.files.len() > KEPT {
            let index = self.dice.below(self.files.len());
            self.world.forget(self.files.swap_remove(index));
        }
        let done = match self.dice.below(18) {
            0 | 1 => self.link(),
            2..5 => self.rename(&FILES),
            5..8 => self.rename(&DIRECTORY_NAMES),
            8 => self.make(),
            9 => self.create(),
            10 => self.unlink(),
            11 => self.truncate(),
            12 => self.open(OFlags::RDWR | OFlags::TRUNC),
            13 => self.open(OFlags::RDWR),
            14..16 => self.open(OFlags::RDONLY),
            16 => self.make_directory(),
            _ => self.remove_directory(),
        };
        match done {
            Ok(()) => true,
            Err(
                Errno::ACCESS
                | Errno::NOENT
                | Errno::EXIST
                | Errno::STALE
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::INVAL
                | Errno::NOTEMPTY
                | Errno::PERM
                | Errno::OPNOTSUPP,
            ) => false,
            Err(errno) => panic!("{errno}"),
        }
    }

    /// A directory: one that the user is in, or one found where the directories may have been moved to.
    fn directory(&mut self) -> Result<Found, Errno> {
        if self.directories.len() == KEPT && self.dice.below(2) == 0 {
            let index = self.dice.below(KEPT);
            return Ok(self.directories[index]);
        }
        let path = match self.dice.below(6) {
            0 => self.dice.choose(&MOVED),
            1..4 => self.dice.choose(&FREE),
            _ => self.dice.choose(&DIRECTORIES),
        };
        let mut directory = self.world.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let parent = directory;
            directory = self.world.find(Place { parent, name })?;
            if directory.is_file {
                self.files.push(directory);
                return Err(Errno::NOTDIR);
            }
        }
        if self.directories.len() == KEPT {
            let index = self.dice.below(KEPT);
            self.directories.swap_remove(index);
        }
        self.directories.push(directory);
        Ok(directory)
    }

    fn place(&mut self, names: &[&'static str]) -> Result<Place, Errno> {
        let parent = self.directory()?;
        let name = self.dice.choose(names);
        Ok(Place { parent, name })
    }

    /// Looks a name up.
    fn find(&mut self, place: Place) -> Result<Found, Errno> {
        let found = self.world.find(place)?;
        if found.is_file {
            self.files.push(found);
        }
        Ok(found)
    }

    /// A file: one just found, or one found before.
    fn file(&mut self) -> Result<Found, Errno> {
        if !self.files.is_empty() && self.dice.below(3) > 0 {
            let index = self.dice.below(self.files.len());
            return Ok(self.files[index]);
        }
        let place = self.place(&FILES)?;
        let found = self.find(place)?;
        if found.is_file {
            Ok(found)
        } else {
            Err(Errno::ISDIR)
        }
    }

    /// Does an operation as a request of this user.
    fn ask<T>(
        &self,
        asked: Asked,
        operation: impl Fn(Caller) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.world.records.ask(self.uid, asked, operation)
    }

    fn new_file(caller: Caller) -> NewFile {
        NewFile {
            caller,
            mode: 0o700,
            umask: 0,
        }
    }

    fn open(&mut self, flags: OFlags) -> Result<(), Errno> {
        let file = self.file()?;
        let expected = self.world.expect(file);
        let bridge = &self.world.bench.bridge;
        let opened = self.ask(Asked::Content, |caller| {
            bridge.open(file.node, caller, flags)
        })?;
        if flags.contains(OFlags::RDWR) {
            self.may_have(file, &expected, Access::Write);
            opened.write(self.uid.to_string().as_bytes(), 0, ReadWriteFlags::empty())?;
        } else {
            self.may_have(file, &expected, Access::Read);
        }
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), Errno> {
        let file = self.file()?;
        let expected = self.world.expect(file);
        let changes = SetAttr {
            size: Some(3),
            ..SetAttr::default()
        };
        let bridge = &self.world.bench.bridge;
        self.ask(Asked::Content, |caller| {
            bridge.setattr(file.node, caller, &changes, None)
        })?;
        self.may_have(file, &expected, Access::Write);
        Ok(())
    }

    /// Asserts that an open that succeeded was allowed.
    fn may_have(&self, file: Found, expected: &Expected, access: Access) {
        let denied = self.world.denied_throughout(file, expected);
        assert!(
            !denies(denied, self.uid, access),
            "{} had {access} access to {expected:?}",
            self.uid
        );
    }

    /// What is denied at a path.
    fn denied(&self, path: &str) -> Denials {
        self.world.case.denials(path)
    }

    /// Asserts that something that was done at a path was allowed.
    fn may_write(&self, path: Option<&String>) {
        if let Some(path) = path.filter(|_| self.world.is_exact) {
            let is_denied = denies(self.denied(path), self.uid, Access::Write);
            assert!(!is_denied, "{} changed {path}", self.uid);
        }
    }

    fn make(&mut self) -> Result<(), Errno> {
        let place = self.place(&FILES)?;
        let _locked = self.lock([place]);
        let path = self.world.path(place);
        let (parent, name) = (place.parent.node, place.name.as_ref());
        let (kind, device) = (FileType::RegularFile, 0);
        let bridge = &self.world.bench.bridge;
        let made = self.ask(Asked::Content, |caller| {
            bridge.mknod(parent, name, Self::new_file(caller), kind, device)
        })?;
        self.may_write(path.as_ref());
        self.files.push(self.world.enter(made, place)?);
        Ok(())
    }

    fn create(&mut self) -> Result<(), Errno> {
        let place = self.place(&FILES)?;
        let _locked = self.lock([place]);
        let path = self.world.path(place);
        let (parent, name) = (place.parent.node, place.name.as_ref());
        let bridge = &self.world.bench.bridge;
        let (made, file) = self.ask(Asked::Content, |caller| {
            bridge.create(parent, name, Self::new_file(caller), OFlags::RDWR)
        })?;
        self.may_write(path.as_ref());
        file.write(self.uid.to_string().as_bytes(), 0, ReadWriteFlags::empty())?;
        self.files.push(self.world.enter(made, place)?);
        Ok(())
    }

    fn make_directory(&mut self) -> Result<(), Errno> {
        let place = self.place(&["d", "e"])?;
        let _locked = self.lock([place]);
        let (parent, name) = (place.parent.node, place.name.as_ref());
        let bridge = &self.world.bench.bridge;
        let made = self.ask(Asked::Names, |caller| {
            bridge.mirror().mkdir(parent, name, Self::new_file(caller))
        })?;
        self.world.enter(made, place).map(drop)
    }

    fn remove_directory(&mut self) -> Result<(), Errno> {
        let place = self.place(&["d", "e"])?;
        let _locked = self.lock([place]);
        let (parent, name) = (place.parent.node, place.name.as_ref());
        let mirror = self.world.bench.bridge.mirror();
        self.ask(Asked::Names, |caller| mirror.rmdir(caller, parent, name))
    }

    fn unlink(&mut self) -> Result<(), Errno> {
        let place = self.place(&FILES)?;
        let _locked = self.lock([place]);
        let file = self.find(place)?;
        let _file = self.lock_files([Some(file)]);
        let (path, before) = (self.world.path(place), self.world.expect(file));
        let (parent, name) = (place.parent.node, place.name.as_ref());
        let bridge = &self.world.bench.bridge;
        self.ask(Asked::Names, |caller| bridge.unlink(caller, parent, name))?;
        self.may_write(path.as_ref());
        self.world.lost(file, place, &before);
        Ok(())
    }

    fn link(&mut self) -> Result<(), Errno> {
        let (file, to) = (self.file()?, self.place(&FILES)?);
        let _locked = self.lock([to]);
        let _file = self.lock_files([Some(file)]);
        let (path, expected) = (self.world.path(to), self.world.expect(file));
        let (parent, name) = (to.parent.node, to.name.as_ref());
        let bridge = &self.world.bench.bridge;
        let made = self.ask(Asked::Names, |caller| {
            bridge.link(caller, file.node, parent, name)
        })?;
        self.may_write(path.as_ref());
        let denied = self.world.denied_throughout(file, &expected);
        if let Some(path) = self.world.path(to) {
            let lost = denied & !self.denied(&path);
            assert_eq!(lost, 0, "{expected:?} was linked to {path}");
        }
        self.files.push(self.world.enter(made, to)?);
        Ok(())
    }

    fn rename(&mut self, names: &[&'static str]) -> Result<(), Errno> {
        let flags = match self.dice.below(3) {
            0 => RenameFlags::EXCHANGE,
            1 => RenameFlags::NOREPLACE,
            _ => RenameFlags::empty(),
        };
        let (from, to) = (self.place(names)?, self.place(names)?);
        let _locked = self.lock([from, to]);
        let moved = self.find(from)?;
        let other = match self.find(to) {
            Err(Errno::NOENT) => None,
            found => Some(found?),
        };
        // The kernel has nothing to do.
        if other == Some(moved) {
            return Err(Errno::EXIST);
        }
        let _files = self.lock_files([Some(moved), other]);
        let files = [Some(moved), other].map(|found| found.filter(|found| found.is_file));
        let [moved_file, other_file] = files;
        let links = files.map(|file| file.map(|file| self.world.names(file)));
        let replaced = other_file.map(|file| self.world.expect(file));
        let before = [from, to].map(|place| self.world.path(place));
        let [old, new] = [from, to].map(|place| (place.parent.node, place.name.as_ref()));
        let bridge = &self.world.bench.bridge;
        self.ask(Asked::Names, |caller| {
            bridge.rename(caller, old, new, flags)
        })?;
        let after = [from, to].map(|place| self.world.path(place));
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        if let ([Some(old), Some(new)], [Some(old_now), Some(new_now)]) = (&before, &after)
            && self.world.is_exact
        {
            self.may_move(links[0], [old, new], [old_now, new_now]);
            if is_exchange {
                self.may_move(links[1], [new, old], [new_now, old_now]);
            } else if other_file.is_some() {
                self.may_write(Some(new));
            }
        }
        if let (Some(other), Some(replaced)) = (other_file, replaced) {
            if is_exchange {
                self.world.moved(other, to, from);
            } else {
                self.world.lost(other, to, &replaced);
            }
        }
        if let Some(moved) = moved_file {
            self.world.moved(moved, from, to);
        }
        Ok(())
    }

    /// Asserts that a move was allowed: of a file with `links` names, or a directory. While it is moved,
    /// moves of the directories above can only add denials to those that a path had before.
    fn may_move(&self, links: Option<u64>, before: [&String; 2], after: [&String; 2]) {
        let ([old, new], [old_now, new_now]) = (before, after);
        let case = self.world.case;
        let Some(links) = links else {
            let is_loosened = case.is_loosened_below(old, new_now);
            assert!(!is_loosened, "{old} became {new_now}");
            let is_denied = case.is_denied_below(old_now, new, self.uid);
            assert!(!is_denied, "{} moved {old_now} to {new}", self.uid);
            return;
        };
        self.may_write(Some(new));
        let lost = case.denials(old) & !case.denials(new_now);
        assert_eq!(lost, 0, "{old} became {new_now}");
        if links > 1 {
            let added = case.denials(new) & !case.denials(old_now);
            assert_eq!(added, 0, "{old_now} of {links} names became {new}");
        }
    }

    /// Locks the directories of names that are about to change, as the kernel does.
    fn lock<const N: usize>(&self, places: [Place; N]) -> Locked<'a> {
        let nodes = places.map(|place| place.parent.node);
        let is_across = nodes.iter().any(|node| *node != nodes[0]);
        let all = is_across.then_some(Key::Renames);
        self.world
            .locks
            .lock(nodes.map(Key::Node).into_iter().chain(all))
    }

    /// Locks the files to which this happens, as the kernel does.
    fn lock_files<const N: usize>(&self, found: [Option<Found>; N]) -> Locked<'a> {
        let files = found.into_iter().flatten().filter(|found| found.is_file);
        self.world
            .locks
            .lock(files.map(|file| Key::Node(file.node)))
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // After a failure, nobody counts what is remembered.
        if !std::thread::panicking() {
            for file in &self.files {
                self.world.forget(*file);
            }
        }
    }
}
