mod decide;
mod names;
mod records;

use std::{
    ffi::OsStr,
    io::IoSlice,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::OFlags,
    io::{Errno, ReadWriteFlags, pread, pwritev2},
};
use verimount_audit::AuditLog;
use verimount_sync::RwLock;

use crate::{
    Attr, BridgeStatus, Caller, Entry, Mirror, NewFile, NodeId, OpenFile, Passthrough,
    PassthroughStatus, Register, RuleStatus, SetAttr,
    backing::{BackingTable, ServedOpen, Serving, Wanted},
    file::wants_writing,
    open_facts::OpenFacts,
    policy::{Access, Policy},
};

/// A mirror whose opens a policy decides.
///
/// Operations that neither open regular files nor change names are those of the [`Mirror`], except
/// [`Bridge::forget`].
pub struct Bridge<R: Register> {
    mirror: Arc<Mirror>,
    policy: RwLock<Arc<Policy>>,
    backing: Arc<BackingTable<R>>,
    counters: Arc<BridgeStatus>,
    audit: Option<Audit>,
}

/// Where decisions are recorded.
#[derive(Clone)]
pub struct Audit {
    /// The log.
    pub log: Arc<AuditLog>,
    /// The mount point, as records name it.
    pub mount: PathBuf,
}

/// An open regular file, closed on drop. Drop it only after the kernel has released it.
pub struct BridgedFile<R: Register> {
    file: OpenFile,
    served: Option<ServedOpen<R>>,
    backing: Arc<BackingTable<R>>,
    mirror: Arc<Mirror>,
    counters: Arc<BridgeStatus>,
}

impl<R: Register> Bridge<R> {
    /// Opens the files of `mirror` as `policy` decides, and passes them through with the backing
    /// files that `register` makes.
    pub fn new(mirror: Mirror, policy: Policy, passthrough: Passthrough, register: R) -> Self {
        let counters = Arc::new(BridgeStatus::default());
        let backing = BackingTable::new(register, passthrough, Arc::clone(&counters));
        mirror.keep_all_names(policy.can_deny());
        Self {
            mirror: Arc::new(mirror),
            policy: RwLock::new(Arc::new(policy)),
            backing: Arc::new(backing),
            counters,
            audit: None,
        }
    }

    /// Records each decision of a rule that audits it, and each denial.
    #[must_use]
    pub fn with_audit(self, audit: Option<Audit>) -> Self {
        Self { audit, ..self }
    }

    /// Where decisions are recorded.
    pub fn audit(&self) -> Option<&Audit> {
        self.audit.as_ref()
    }

    /// Finds out in advance whether the kernel passes files through for this process. Otherwise,
    /// the first open finds out.
    ///
    /// # Errors
    /// The kernel's error, if passthrough is required.
    pub fn probe_passthrough(&self) -> Result<(), Errno> {
        // A regular file, because for directories the kernel does not check the stacking depth.
        match self.mirror.some_file() {
            Some(file) => self.backing.probe(file.as_fd()),
            None => self.backing.probe(self.mirror.root()),
        }
    }

    /// Whether files are passed through if the policy decides so, as far as known.
    pub fn passes_through(&self) -> bool {
        self.backing.passes_through()
    }

    /// The mirror.
    pub fn mirror(&self) -> &Mirror {
        &self.mirror
    }

    /// Replaces the policy. Operations that are under way finish with the old one, and open files keep
    /// their serving mode.
    pub fn set_policy(&self, mut policy: Policy) {
        self.mirror.keep_all_names(policy.can_deny());
        let mut present = self.policy.write();
        policy.go_on_counting(&present);
        *present = Arc::new(policy);
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, the kernel's error if passthrough is required and fails,
    /// and as [`Mirror`].
    pub fn open(
        &self,
        node: NodeId,
        caller: Caller,
        flags: OFlags,
    ) -> Result<BridgedFile<R>, Errno> {
        let access = access(flags);
        let facts = OpenFacts::new(&self.mirror, node, caller, access);
        let way = self.way(self.decide("open", facts)?);
        let file = match way {
            Way::Passthrough => self.mirror.hold_file(node, flags)?,
            Way::Relay => self.mirror.open_file(node, flags)?,
        };
        let opened = self.serve(way, file)?;
        match opened.serving() {
            // The kernel would open the backing file that cannot be mapped, with these flags.
            Serving::AppendOnly(Some(_)) if flags.contains(OFlags::DIRECT) => Err(Errno::INVAL),
            _ => Ok(opened),
        }
    }

    /// Creates and opens a regular file. For the policy, this is writing.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Mirror::create`].
    pub fn create(
        &self,
        parent: NodeId,
        name: &OsStr,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, BridgedFile<R>), Errno> {
        let facts = OpenFacts::creating(&self.mirror, parent, name, new.caller);
        let way = self.way(self.decide("create", facts)?);
        let (entry, file) = self.mirror.create(parent, name, new, flags)?;
        let served = self.serve(way, file);
        let file =
            served.inspect_err(|_| self.take_back(new.caller, entry, Some((parent, name))))?;
        Ok((entry, file))
    }

    /// Creates and opens a regular file without a name. Its path for the policy is that of the
    /// directory with a slash appended.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Mirror::tmpfile`].
    pub fn tmpfile(
        &self,
        parent: NodeId,
        new: NewFile,
        flags: OFlags,
    ) -> Result<(Entry, BridgedFile<R>), Errno> {
        let no_name = OsStr::new("");
        let facts = OpenFacts::creating(&self.mirror, parent, no_name, new.caller);
        let way = self.way(self.decide("create", facts)?);
        let (entry, file) = self.mirror.tmpfile(parent, new, flags)?;
        let served = self.serve(way, file);
        let file = served.inspect_err(|_| self.take_back(new.caller, entry, None))?;
        Ok((entry, file))
    }

    /// As [`Mirror::setattr`]. For the policy, changing the length of a file that is not open is
    /// opening it for writing.
    ///
    /// # Errors
    /// `EACCES` if the policy denies it, and as [`Mirror::setattr`].
    pub fn setattr(
        &self,
        node: NodeId,
        caller: Caller,
        changes: &SetAttr,
        open: Option<&BridgedFile<R>>,
    ) -> Result<Attr, Errno> {
        if changes.size.is_some() && open.is_none() {
            let facts = OpenFacts::new(&self.mirror, node, caller, Access::Write);
            self.decide("truncate", facts)?;
        }
        let open = open.map(BridgedFile::file);
        self.mirror.setattr(caller, node, changes, open)
    }

    /// As [`Mirror::forget`].
    pub fn forget(&self, node: NodeId, count: u64) {
        if self.mirror.forget(node, count) {
            self.backing.forget(node);
        }
    }

    /// The statistics so far. From which file the policy was read is not known here.
    pub fn status(&self) -> BridgeStatus {
        let refusal = self.backing.refusal().map(|errno| errno.to_string());
        let counted = BridgeStatus::clone(&self.counters);
        BridgeStatus {
            passthrough: PassthroughStatus {
                idle: self.backing.idle(),
                refusal,
                ..counted.passthrough
            },
            remembered_files: self.mirror.remembered(),
            held_files: self.mirror.held(),
            rules: self
                .policy()
                .counts()
                .into_iter()
                .map(RuleStatus::from)
                .collect(),
            audit: self.audit.as_ref().map(|audit| audit.log.status()),
            ..counted
        }
    }

    /// Undoes the creation of a file, and removes its name if it has one.
    fn take_back(&self, caller: Caller, made: Entry, place: Option<(NodeId, &OsStr)>) {
        if let Some((parent, name)) = place
            && let Ok(found) = self.mirror.lookup(parent, name)
        {
            if found.node == made.node {
                // If this fails, an empty file stays.
                let _ = self.mirror.unlink(caller, parent, name);
            }
            self.forget(found.node, 1);
        }
        self.forget(made.node, 1);
    }

    fn serve(&self, way: Way, file: OpenFile) -> Result<BridgedFile<R>, Errno> {
        let wanted = match (way, file.backing_fd()) {
            _ if self.mirror.is_append_only(&file)? => Wanted::AppendOnly {
                is_writable: file.is_writable(),
            },
            (Way::Passthrough, (file, keep)) => Wanted::Passthrough { file, keep },
            (Way::Relay, _) => Wanted::Relay,
        };
        let served = self.backing.open(file.node(), wanted)?;
        let opens = &self.counters.opens;
        if served.is_passed_through() {
            opens.passthrough.add(1);
        } else {
            // It is opened now, to report errors to the opener.
            file.fd()?;
            opens.relay.add(1);
        }
        Ok(BridgedFile {
            file,
            served: Some(served),
            backing: Arc::clone(&self.backing),
            mirror: Arc::clone(&self.mirror),
            counters: Arc::clone(&self.counters),
        })
    }
}

/// The intended serving mode of an open.
#[derive(Debug, Clone, Copy)]
enum Way {
    Passthrough,
    Relay,
}

/// The policy's name for an open with these flags.
fn access(flags: OFlags) -> Access {
    if wants_writing(flags) {
        Access::Write
    } else {
        Access::Read
    }
}

impl<R: Register> BridgedFile<R> {
    /// The open file of the mirror.
    pub fn file(&self) -> &OpenFile {
        &self.file
    }

    /// Reads into `buf` from `offset` on, and returns the number of bytes: fewer only at the end of
    /// the file.
    ///
    /// # Errors
    /// Any.
    pub fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let count = pread(self.file.fd()?, buf, offset)?;
        self.counters.relayed.reads.add(1);
        self.counters.relayed.read_bytes.add(count as u64);
        Ok(count)
    }

    /// Writes `data` from `offset` on, with the flags of `pwritev2`, and returns the number of
    /// bytes written. After a partial write, writing the rest reports the error.
    ///
    /// # Errors
    /// Any, if nothing could be written.
    pub fn write(&self, data: &[u8], offset: u64, flags: ReadWriteFlags) -> Result<usize, Errno> {
        // Without CAP_FSETID, so that set-id bits are cleared.
        self.mirror.rights().prepare_thread()?;
        let file = self.file.fd()?;
        let mut done = 0;
        while done < data.len() {
            let rest = [IoSlice::new(&data[done..])];
            match pwritev2(file, &rest, offset + done as u64, flags) {
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        self.counters.relayed.writes.add(1);
        self.counters.relayed.written_bytes.add(done as u64);
        Ok(done)
    }

    /// Writes pages of a mapping, which the kernel writes back, as [`Self::write`] does.
    ///
    /// # Errors
    /// `EPERM` if the file can only be appended to; any other, if nothing could be written.
    pub fn write_mapped(
        &self,
        data: &[u8],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> Result<usize, Errno> {
        if self.mirror.is_append_only(&self.file)? {
            Err(Errno::PERM)
        } else {
            self.write(data, offset, flags)
        }
    }

    /// How the kernel is to serve it.
    pub fn serving(&self) -> Serving<&R::Id> {
        self.served
            .as_ref()
            .map_or(Serving::Relay, ServedOpen::serving)
    }
}

impl<R: Register> Drop for BridgedFile<R> {
    fn drop(&mut self) {
        self.served = None;
        // The kernel may forget a file before it releases it.
        if !self.mirror.remembers(self.file.node()) {
            self.backing.forget(self.file.node());
        }
    }
}

/// Explains how `policy` would decide if `caller` opened the file at `path` below the source, or created it by opening it for
/// writing.
///
/// # Errors
/// As [`Mirror::lookup`] and [`Policy::decide`].
pub fn explain(
    mirror: &Mirror,
    policy: &Policy,
    path: &Path,
    caller: Caller,
    access: Access,
) -> Result<String, Errno> {
    let find = |path: &Path| {
        let mut names = path.iter();
        names.try_fold(NodeId::ROOT, |node, name| {
            Ok(mirror.lookup(node, name)?.node)
        })
    };
    match (find(path), path.parent(), path.file_name()) {
        (Err(Errno::NOENT), Some(parent), Some(name)) if access == Access::Write => {
            let parent = find(parent)?;
            policy.explain(&OpenFacts::creating(mirror, parent, name, caller))
        }
        (found, ..) => policy.explain(&OpenFacts::new(mirror, found?, caller, access)),
    }
}
