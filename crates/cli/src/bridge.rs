use std::{
    io,
    path::{Path, PathBuf, absolute},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use verimount_host::{
    audit::AuditTarget,
    bridge::{
        Audit, BridgeFs, BridgeOptions, CachePolicy, Mirror, MirrorOptions, Passthrough,
        PolicyFile, policy::Policy,
    },
    mounts::{AttachOptions, Reload, attach, served},
    printable,
    sandbox::{Kind, Sandbox, open_again},
};

use crate::{
    Outcome,
    audit_args::{AuditArgs, is_below},
    background::Ready,
    explain_args::ExplainArgs,
    message::{reasons, say},
    mount_args::MountArgs,
    options::one_of,
};

/// Mirror a directory through a policy that decides each open
///
/// The kernel itself reads and writes the files that the policy passes through; this requires root.
/// For other users, all reads and writes are relayed. SIGHUP reloads the policy, and opens the audit log again.
///
/// WARNING: file locks in the mount are not visible in the source. Programs that coordinate by
/// locks, such as SQLite, must all use the mount: one that uses the source at the same time can
/// corrupt the file.
#[derive(Args)]
pub(crate) struct Bridge {
    /// The directory to mirror
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The mount point: an empty directory
    #[arg(value_name = "DIR", required_unless_present = "explain")]
    directory: Option<PathBuf>,
    /// The policy, a TOML file; without it, everything is passed through
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Whether files are passed through to the kernel: auto if it can, never, or require to fail if it cannot
    #[arg(long, value_name = "WHEN", default_value_t, value_parser = one_of(Passthrough::ALL, Passthrough::name))]
    passthrough: Passthrough,
    /// How long the kernel uses what it has cached: strict asks each time; normal sees changes in
    /// the source within a second; exclusive is for a source that only this mount changes
    #[arg(long, value_name = "HOW", default_value_t, value_parser = one_of(CachePolicy::ALL, CachePolicy::name))]
    cache: CachePolicy,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Have no extended attributes, so that the kernel does not ask for any at each new file; access
    /// control lists are among them, so only the user who mounts may use the mount
    #[arg(long, conflicts_with = "allow_other")]
    no_xattr: bool,
    #[command(flatten)]
    explain: ExplainArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    mount: MountArgs,
}

impl Bridge {
    pub(crate) fn run(self) -> Result<Outcome> {
        let Some(directory) = self.directory.as_deref() else {
            let (mirror, policy) = (self.mirror()?, self.policy()?);
            return self.explain.explain(&self.source, &mirror, &policy);
        };
        let prepare = |sandbox: &mut Sandbox| self.prepare(directory, sandbox);
        self.mount
            .background
            .serve(Kind::Bridge, prepare, |opened| {
                self.mount(opened, directory)
            })
    }

    /// Opens the source, and keeps all below it.
    fn prepare(&self, directory: &Path, sandbox: &mut Sandbox) -> Result<Prepared> {
        raise_open_files();
        let mirror = self.mirror()?;
        let policy = self.policy()?;
        let audit = self.audit.open(&[directory, &self.source])?;
        if let Some(target) = &audit {
            sandbox.task(target.reopening());
        }
        sandbox.mirror(&self.source);
        if let Some(path) = &self.policy {
            // Editors put a new file in its place.
            sandbox.open_again(path)?;
        }
        sandbox.mount(directory, self.mount_options(&mirror));
        Ok(Prepared {
            mirror,
            policy,
            audit,
        })
    }

    fn mount(&self, prepared: Prepared, directory: &Path) -> Result<Ready> {
        let Prepared {
            mirror,
            policy,
            audit,
        } = prepared;
        if mirror.meets_mounts() && is_below(directory, &self.source) {
            bail!(
                "{} is inside {}: only root can mount a mirror inside its source",
                printable(directory),
                printable(&self.source)
            );
        }
        // Absolute, as the daemon leaves the working directory.
        let policy_path = self.policy.as_deref().map(absolute).transpose()?;
        let options = self.mount_options(&mirror);
        let audit = match audit {
            Some(target) => Some(Audit {
                log: self.audit.start(target)?.into(),
                mount: absolute(directory)?,
            }),
            None => None,
        };
        let log = audit.as_ref().map(|audit| audit.log.clone());
        let fs = Arc::new(BridgeFs::new(
            mirror,
            policy,
            policy_path.as_deref().map(PolicyFile::loaded),
            BridgeOptions {
                cache: self.cache,
                passthrough: self.passthrough,
                is_shared: self.mount.allow_other,
                no_xattr: self.no_xattr,
                audit,
            },
            served(&self.source, None),
        ));
        let mounted = attach(fs.clone(), directory, &options)?;
        let text = format!(
            "{} on {} ({}, {}, cache {})",
            printable(&self.source),
            printable(directory),
            mounted.mode(),
            if fs.bridge().passes_through() {
                "passthrough"
            } else {
                "relay"
            },
            self.cache,
        );
        let mut reload = policy_path.map(|path| reload(fs, path));
        if let Some(log) = log {
            let mut policy = reload.take();
            reload = Some(Box::new(move || {
                log.reopen();
                policy.iter_mut().for_each(|reload| reload());
            }));
        }
        Ok(Ready::mounted(mounted, text, reload))
    }

    fn mirror(&self) -> Result<Mirror> {
        let options = MirrorOptions {
            read_only: self.read_only,
        };
        Mirror::open(&self.source, options).with_context(|| printable(&self.source).to_string())
    }

    /// The options of a mount that allows nothing that the source's mount does not.
    fn mount_options(&self, mirror: &Mirror) -> AttachOptions {
        let restrictions = mirror.restrictions();
        let read_only = self.read_only || restrictions.read_only;
        let source_name = printable(&self.source).to_string();
        let options = self.mount.attaching(source_name, read_only);
        AttachOptions {
            no_exec: options.no_exec || restrictions.no_exec,
            no_symfollow: restrictions.no_symfollow,
            ..options
        }
    }

    fn policy(&self) -> Result<Policy> {
        self.policy
            .as_deref()
            .map_or_else(|| Ok(Policy::default()), read_policy)
    }
}

/// What was opened while that was allowed.
struct Prepared {
    mirror: Mirror,
    policy: Policy,
    audit: Option<AuditTarget>,
}

/// Returns an action that reloads the policy. If the new policy has an error, the old one stays.
fn reload(fs: Arc<BridgeFs>, path: PathBuf) -> Reload {
    Box::new(move || match read_policy(&path) {
        Ok(policy) => {
            fs.reload(Ok(policy));
            tracing::info!(policy = %printable(&path), "reloaded the policy");
        }
        Err(error) => {
            let reason = reasons(&error);
            fs.reload(Err(&reason));
            tracing::error!(reason, "cannot reload the policy, keeping the old one");
        }
    })
}

fn read_policy(path: &Path) -> Result<Policy> {
    let text = open_again(path).and_then(io::read_to_string);
    let text = text.with_context(|| printable(path).to_string())?;
    Ok(Policy::parse(&text, path)?)
}

/// A limit of descriptors below this is one that nobody can have meant for a mount that others use: what systems
/// give each process at least.
const FEW_OPEN_FILES: u64 = 1024;

/// Raises the limit of open files to its maximum: each file open through the mount takes up to two
/// descriptors, and users get shares of the limit.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // It also works with the present limit.
    let _ = setrlimit(Resource::Nofile, raised);
    if let Some(most @ ..FEW_OPEN_FILES) = limit.maximum {
        say(format_args!(
            "note: only {most} descriptors are allowed (ulimit -Hn): further opens in the mount will fail with \
             \"Too many open files\""
        ));
    }
}
