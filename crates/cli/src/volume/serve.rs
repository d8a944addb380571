use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf, absolute},
    thread,
};

use anyhow::{Context, Result};
use clap::Args;
use verimount_host::{
    mounts::{EndSignals, Registration, auto_threads, end_by},
    printable,
    sandbox::{Kind, Sandbox, removing},
    volume::{Server, VolumeExport},
};

use super::{args::UseArgs, opened::OpenedVolume, socket::SocketArgs};
use crate::{
    Outcome,
    background::{BackgroundArgs, Ready},
    options::{Auto, parse_threads},
};

/// Serve a volume to NBD clients such as QEMU, which connect to nbd+unix:///?socket=PATH
///
/// `verimount umount SOCKET`, SIGTERM or SIGINT ends the server after it has answered all
/// pending requests; clients have 10 seconds to receive the answers. A second signal ends it at
/// once, like a crash.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    volume: UseArgs,
    #[command(flatten)]
    socket: SocketArgs,
    /// Number of threads for each client, or auto
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_threads)]
    threads: Auto<NonZeroUsize>,
    /// Keep processors from entering idle states while requests arrive, for lower latency; requires
    /// root
    #[arg(long)]
    awake: bool,
    #[command(flatten)]
    background: BackgroundArgs,
}

impl Serve {
    pub(crate) fn run(self) -> Result<Outcome> {
        let prepare = |sandbox: &mut Sandbox| self.prepare(sandbox);
        self.background.serve(Kind::Export, prepare, |bound| {
            let (server, socket, registration) = bound;
            let opened = self.volume.open()?;
            let (opened, export) = opened.begin(|opened| self.export(opened))?;
            let threads = self.threads.0;
            Ok(Ready {
                text: format!(
                    "{} on {} (NBD, {} mode)",
                    self.volume.source.devices.shown(),
                    printable(&socket),
                    opened.volume.mode(),
                ),
                serve: Box::new(move |signals| {
                    let threads = threads.unwrap_or_else(auto_threads);
                    let _registration = registration;
                    serve(&server, opened, export, threads, signals)
                }),
            })
        })
    }

    /// Makes and registers the socket, and keeps what serving the volume there takes. Returns a server on it, and its path.
    fn prepare(&self, sandbox: &mut Sandbox) -> Result<(Server, PathBuf, Option<Registration>)> {
        let (server, socket) = self.socket.bind()?;
        let registration = register(&socket);
        let removed = [absolute(&socket).ok(), Registration::link()];
        sandbox.task(removing(removed.into_iter().flatten().collect()));
        self.volume.prepare(sandbox);
        if self.awake {
            sandbox.keep_awake();
        }
        Ok((server, socket, registration))
    }

    fn export(&self, opened: &OpenedVolume) -> Result<VolumeExport> {
        let export = VolumeExport::new(
            opened.disk(&self.volume.source.devices.volume),
            self.volume.allow_discards,
        );
        if self.awake {
            let awake = export.keeping_awake();
            return awake.context("keeping processors awake, through /dev/cpu_dma_latency");
        }
        Ok(export)
    }
}

/// Registers the export for `verimount list`. Failing to register does no harm.
fn register(socket: &Path) -> Option<Registration> {
    Registration::new(socket).unwrap_or_else(|error| {
        tracing::warn!(%error, "verimount list will not show the export");
        None
    })
}

fn serve(
    server: &Server,
    opened: OpenedVolume,
    export: VolumeExport,
    threads: NonZeroUsize,
    signals: EndSignals,
) -> Result<()> {
    opened.serve(move || {
        let handle = signals.handle();
        thread::scope(|scope| {
            scope.spawn(|| stop_at(signals, server));
            server.serve(&export, threads);
            handle.close();
        });
        Ok(())
    })
}

/// Stops the server at the first signal, and ends the process at the second.
fn stop_at(mut signals: EndSignals, server: &Server) {
    let mut is_ending = false;
    while let Some(signal) = signals.wait() {
        if is_ending {
            let _ = end_by(signal);
        }
        is_ending = true;
        server.stop();
    }
}
