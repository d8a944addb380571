//! The users who run podman.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use verimount_support::command;

use crate::output;

/// The ordinary user, who exists only in the mount namespace of this program.
const USER: u32 = 61_003;
const NAME: &str = "verimount-test";

/// What this user may use in namespaces: `/etc/subuid` and `/etc/subgid`.
const SUBORDINATES: &str = "verimount-test:3000000:65536\n";

/// A user with a storage of podman.
pub(crate) struct Caller {
    pub(crate) name: &'static str,
    home: PathBuf,
    /// The folder of the scripts.
    scripts: PathBuf,
    is_root: bool,
}

impl Caller {
    /// Root, with a storage of this name.
    pub(crate) fn root(folder: &Path, name: &'static str) -> Result<Self> {
        Self::new(folder, name, true)
    }

    /// Makes the user known in this mount namespace.
    pub(crate) fn ordinary(folder: &Path) -> Result<Self> {
        let caller = Self::new(folder, "an ordinary user", false)?;
        chown(&caller.home, Some(USER), Some(USER))?;
        let known = |file: &str, line: &str| {
            format!("{}{line}\n", fs::read_to_string(file).unwrap_or_default())
        };
        let home = caller.home.display();
        let files = [
            (
                "/etc/passwd",
                known(
                    "/etc/passwd",
                    &format!("{NAME}:x:{USER}:{USER}::{home}:/bin/sh"),
                ),
            ),
            (
                "/etc/group",
                known("/etc/group", &format!("{NAME}:x:{USER}:")),
            ),
            ("/etc/subuid", SUBORDINATES.to_owned()),
            ("/etc/subgid", SUBORDINATES.to_owned()),
        ];
        for (file, content) in files {
            let own = folder.join(file.trim_start_matches("/etc/"));
            fs::write(&own, content)?;
            command::run(Command::new("mount").arg("--bind").arg(own).arg(file))?;
        }
        Ok(caller)
    }

    fn new(folder: &Path, name: &'static str, is_root: bool) -> Result<Self> {
        let home = folder.join(name.replace(' ', "-"));
        for part in ["", "run", "points", ".config", ".config/containers"] {
            let part = home.join(part);
            fs::create_dir(&part)?;
            fs::set_permissions(&part, Permissions::from_mode(0o700))?;
            if !is_root {
                chown(&part, Some(USER), Some(USER))?;
            }
        }
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\ngraphroot = \"{0}/storage\"\nrunroot = \"{0}/runtime\"\n",
            home.display()
        );
        fs::write(home.join("storage.conf"), storage)?;
        // Accepts every image, as it comes from here.
        let policy = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
        fs::write(home.join(".config/containers/policy.json"), policy)?;
        Ok(Self {
            name,
            home,
            scripts: folder.to_owned(),
            is_root,
        })
    }

    /// A command in the storage of this user, in whose namespace podman mounts images.
    fn command(&self, program: &str) -> Command {
        let mut command = if self.is_root {
            Command::new(program)
        } else {
            let mut unshare = Command::new("podman");
            unshare.args(["unshare", program]).uid(USER).gid(USER);
            unshare
        };
        command
            .current_dir("/")
            .env("HOME", &self.home)
            .env("XDG_RUNTIME_DIR", self.home.join("run"))
            .env("CONTAINERS_STORAGE_CONF", self.home.join("storage.conf"))
            .env("BUILDAH_ISOLATION", "chroot");
        command
    }

    /// The output of one of the scripts for the shell.
    pub(crate) fn run(&self, script: &str, arguments: &[&OsStr]) -> Result<String> {
        let mut shell = self.command("sh");
        shell.arg(self.scripts.join(script)).args(arguments);
        output(shell.env("LIST", self.scripts.join("list.py")))
    }

    /// Lists an overlay above the mounts of `images`, the lowermost first.
    pub(crate) fn overlay(&self, program: &Path, images: &[PathBuf]) -> Result<String> {
        // An overlay that is not root's reads the marks that ordinary users may write.
        let options = if self.is_root { "" } else { "userxattr," };
        let points = self.home.join("points");
        let mut arguments: Vec<&OsStr> =
            vec![program.as_os_str(), options.as_ref(), points.as_os_str()];
        arguments.extend(images.iter().map(|image| image.as_os_str()));
        self.run("overlay.sh", &arguments)
    }

    /// Lists what podman shows of an image in a registry, whose layers it takes from a store. All of them must be there.
    pub(crate) fn store(
        &self,
        program: &Path,
        store: &Path,
        registry: &str,
        image: &str,
    ) -> Result<String> {
        let (point, configuration) = self.point_of_store()?;
        let mut shell = self.command("sh");
        shell
            .arg(self.scripts.join("store.sh"))
            .args([program, store]);
        shell.args([registry, image]).arg(&point);
        shell.env("LIST", self.scripts.join("list.py"));
        let shown = shell
            .env("CONTAINERS_STORAGE_CONF", configuration)
            .output()?;
        let said = String::from_utf8_lossy(&shown.stderr);
        ensure!(
            shown.status.success(),
            "{image} with layers from a store: {said}"
        );
        // Behind podman's own warnings.
        let taken = said
            .lines()
            .last()
            .unwrap_or_default()
            .trim()
            .parse::<u32>();
        ensure!(
            taken.is_ok_and(|taken| taken >= 3),
            "podman has not taken the layers of {image} from the store: {said}"
        );
        Ok(String::from_utf8(shown.stdout)?.trim_end().to_owned())
    }

    /// Where a store of layers is mounted, and the configuration in which podman looks there.
    fn point_of_store(&self) -> Result<(PathBuf, PathBuf)> {
        let point = self.home.join("points/store");
        fs::create_dir_all(&point)?;
        let configuration = self.home.join("store.conf");
        let own = fs::read_to_string(self.home.join("storage.conf"))?;
        let own = own.replace("/storage\"", "/store-storage\"");
        let added = format!(
            "[storage.options]\nadditionallayerstores = [\"{}\"]\n",
            point.display()
        );
        fs::write(&configuration, own + &added)?;
        if !self.is_root {
            chown(&point, Some(USER), Some(USER))?;
        }
        Ok((point, configuration))
    }

    /// What the first run of an image in a registry needs, in bytes and seconds; if `store` is given, with layers from the store
    /// at this address.
    pub(crate) fn first_run(
        &self,
        program: &Path,
        image: &str,
        store: Option<&str>,
    ) -> Result<String> {
        let (point, configuration) = self.point_of_store()?;
        let mut shell = self.command("sh");
        shell.arg(self.scripts.join("first_run.sh"));
        shell.arg(program).arg(image);
        if let Some(store) = store {
            shell.arg(store).arg(point);
            shell.env("CONTAINERS_STORAGE_CONF", configuration);
        }
        output(&mut shell)
    }

    /// Removes what only this user, in their namespace, can remove.
    pub(crate) fn forget(&self) -> Result<()> {
        let storages = ["storage", "store-storage"].map(|name| self.home.join(name));
        output(self.command("rm").arg("-rf").args(storages)).map(drop)
    }
}
