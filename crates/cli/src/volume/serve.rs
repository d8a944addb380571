use std::{num::NonZeroUsize, path::PathBuf, thread};

use anyhow::{Context, Result};
use clap::Args;
use signal_hook::{iterator::Signals, low_level::emulate_default_handler};
use verimount_names::printable;
use verimount_nbd::Server;
use verimount_serve::VolumeExport;

use crate::{
    Outcome,
    background::{BackgroundArgs, Ready},
    options::{Auto, auto_threads, parse_threads},
};

use super::{args::UseArgs, opened::OpenedVolume};

/// Serve a volume to NBD clients such as QEMU, which reach it as nbd+unix:///?socket=PATH
///
/// It ends at SIGTERM, SIGINT or SIGHUP, when what has been asked for is answered; clients have 10
/// seconds to take that. A second signal ends it at once, as a crash would.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    volume: UseArgs,
    /// The Unix socket to make; only its owner may connect to it
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Threads that answer each client: auto or a number
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_threads)]
    threads: Auto<NonZeroUsize>,
    /// Keep idle processors from sleeping while requests come, for faster answers; takes root
    #[arg(long)]
    awake: bool,
    #[command(flatten)]
    background: BackgroundArgs,
}

impl Serve {
    pub(crate) fn run(self) -> Result<Outcome> {
        self.background.serve(|| {
            let server = Server::bind(&self.socket);
            let server = server.with_context(|| printable(&self.socket).to_string())?;
            let opened = self.volume.open()?;
            let export = match self.export(&opened) {
                Ok(export) => export,
                Err(error) => {
                    opened.close()?;
                    return Err(error);
                }
            };
            let threads = self.threads.0;
            Ok(Ready {
                text: format!(
                    "{} on {} (NBD, {} mode)",
                    self.volume.devices.shown(),
                    printable(&self.socket),
                    opened.volume().mode(),
                ),
                serve: Box::new(move |signals| {
                    let threads = threads.unwrap_or_else(auto_threads);
                    serve(&server, opened, export, threads, signals)
                }),
            })
        })
    }

    fn export(&self, opened: &OpenedVolume) -> Result<VolumeExport> {
        let export = VolumeExport::new(opened.volume(), self.volume.allow_discards);
        if self.awake {
            let awake = export.keeping_awake();
            return awake.context("keeping processors awake, through /dev/cpu_dma_latency");
        }
        Ok(export)
    }
}

fn serve(
    server: &Server,
    opened: OpenedVolume,
    export: VolumeExport,
    threads: NonZeroUsize,
    signals: Signals,
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

/// Ends the serving at the first signal, and the process at the second.
fn stop_at(mut signals: Signals, server: &Server) {
    let mut is_ending = false;
    for signal in signals.forever() {
        if is_ending {
            let _ = emulate_default_handler(signal);
        }
        is_ending = true;
        server.stop();
    }
}
