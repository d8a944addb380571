//! Prints a status for humans. Its texts come from the process that serves the directory and are
//! not trusted.

use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

use indicatif::HumanDuration;
use verimount::bridge::{BridgeStatus, PolicyStatus};
use verimount::mounts::{
    BadSector, CacheStatus, Failure, ImageStatus, Kind, OriginStatus, Requests, Served, Status,
    VolumeStatus,
};
use verimount::{Pin, one_line};

pub(super) fn print(out: &mut impl Write, status: &Status) -> io::Result<()> {
    print_served(out, &status.served, &status.kind)?;
    match &status.kind {
        Kind::Image(image) | Kind::File(image) => print_image(out, image)?,
        Kind::Bridge(bridge) => print_bridge(out, bridge)?,
        Kind::Volume(volume) => print_volume(out, volume)?,
        _ => {}
    }
    if !status.requests.is_empty() {
        writeln!(out, "asked          {}", requests(&status.requests))?;
    }
    if !matches!(status.kind, Kind::Bridge(_)) {
        writeln!(out, "mismatches     {}", status.mismatches)?;
    }
    match &status.kind {
        Kind::Image(image) | Kind::File(image) => print_failures(out, &image.recent_failures),
        Kind::Volume(volume) => print_bad_sectors(out, &volume.recent_mismatches),
        _ => Ok(()),
    }
}

fn print_bad_sectors(out: &mut impl Write, bad: &[BadSector]) -> io::Result<()> {
    bad.iter()
        .try_for_each(|bad| writeln!(out, "  {}", one_line(&bad.reason)))
}

fn print_served(out: &mut impl Write, served: &Served, kind: &Kind) -> io::Result<()> {
    writeln!(out, "source         {}", one_line(&served.source))?;
    writeln!(out, "kind           {}", kind.name())?;
    if let Some(pin) = &served.pin {
        writeln!(out, "pinned by      {}", pin_text(pin))?;
    }
    if let Some(daemon) = &served.daemon {
        let running = HumanDuration(since(served.since));
        writeln!(
            out,
            "served by      process {}, for {running}",
            daemon.pid()
        )?;
    }
    Ok(())
}

/// The trust policy of a mount, in words.
fn pin_text(pin: &Pin) -> String {
    match pin {
        Pin::Digest => "its digest".to_owned(),
        Pin::RootHash => "its root hash".to_owned(),
        Pin::Key { id } => format!("a signature of key {}", one_line(id)),
        Pin::Unpinned => "nothing: damage is detected, but not forgery".to_owned(),
        Pin::Unverified => "nothing: no content is verified".to_owned(),
        _ => "a policy that only a newer verimount knows".to_owned(),
    }
}

fn requests(requests: &Requests) -> String {
    let each = requests.iter();
    let each = each.map(|(name, count)| format!("{count} {}", one_line(name)));
    each.collect::<Vec<_>>().join(", ")
}

fn print_image(out: &mut impl Write, status: &ImageStatus) -> io::Result<()> {
    let digest = status
        .digest
        .as_deref()
        .unwrap_or("none: nothing is verified");
    writeln!(out, "digest         {}", one_line(digest))?;
    writeln!(out, "size           {} bytes", status.size)?;
    writeln!(out, "verified       {} bytes", status.bytes_verified)?;
    writeln!(out, "data requests  {}", status.data_requests)?;
    writeln!(
        out,
        "tree requests  {} of {} bytes in all",
        status.tree_requests, status.tree_bytes
    )?;
    match &status.origin {
        Some(origin) => print_origin(out, origin),
        None => Ok(()),
    }
}

fn print_origin(out: &mut impl Write, origin: &OriginStatus) -> io::Result<()> {
    writeln!(
        out,
        "received       {} bytes by {} requests; {} did not match",
        origin.bytes_received, origin.requests, origin.bytes_rejected
    )?;
    writeln!(
        out,
        "retries        {} as the server was busy, {} without connection, {} broken off",
        origin.retries_busy, origin.retries_unreachable, origin.retries_broken
    )?;
    if let Some(failure) = &origin.last_failure {
        writeln!(
            out,
            "last failure   {} ago: {}",
            HumanDuration(since(failure.at)),
            one_line(&failure.reason)
        )?;
    }
    match &origin.cache {
        Some(cache) => print_cache(out, cache),
        None => Ok(()),
    }
}

fn print_cache(out: &mut impl Write, cache: &CacheStatus) -> io::Result<()> {
    writeln!(out, "cache          {}", one_line(&cache.directory))?;
    writeln!(
        out,
        "               {} bytes read, {} written, {} evicted; {} did not match, {} failures",
        cache.bytes_read,
        cache.bytes_written,
        cache.bytes_evicted,
        cache.bytes_rejected,
        cache.failures
    )
}

/// The time since a moment, which is in seconds since 1970.
fn since(moment: u64) -> Duration {
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(moment));
    let since = moment.and_then(|moment| moment.elapsed().ok());
    since.unwrap_or_default()
}

fn print_failures(out: &mut impl Write, failures: &[Failure]) -> io::Result<()> {
    for failure in failures {
        writeln!(
            out,
            "  {} at {}: {}",
            one_line(&failure.file),
            failure.offset,
            one_line(&failure.reason)
        )?;
    }
    Ok(())
}

fn print_policy(out: &mut impl Write, policy: &PolicyStatus) -> io::Result<()> {
    let ago = |moment| HumanDuration(since(moment));
    let (file, loaded) = (one_line(&policy.file), ago(policy.loaded));
    writeln!(out, "policy         {file}, loaded {loaded} ago")?;
    let Some(failure) = &policy.failure else {
        return Ok(());
    };
    let (failed, reason) = (ago(failure.at), one_line(&failure.reason));
    writeln!(out, "RELOAD FAILED  {failed} ago: {reason}")?;
    writeln!(
        out,
        "               the old policy, loaded {loaded} ago, is still in force"
    )
}

fn print_bridge(out: &mut impl Write, status: &BridgeStatus) -> io::Result<()> {
    if let Some(policy) = &status.policy {
        print_policy(out, policy)?;
    }
    let (opens, passthrough) = (&status.opens, &status.passthrough);
    writeln!(
        out,
        "opens          {} passed through, {} relayed, {} denied; {} audited",
        opens.passthrough, opens.relay, opens.denied, opens.audited
    )?;
    writeln!(
        out,
        "               {} served otherwise, as the file was open already",
        opens.followed
    )?;
    writeln!(
        out,
        "passthrough    {} open now, {} registered, {} from the cache, {} kept",
        passthrough.open, passthrough.registered, passthrough.reused, passthrough.idle
    )?;
    writeln!(
        out,
        "fallbacks      {}{}",
        passthrough.fallbacks,
        match &passthrough.refusal {
            Some(reason) => format!(": {}", one_line(reason)),
            None => String::new(),
        }
    )?;
    let relayed = &status.relayed;
    writeln!(
        out,
        "relayed        {} reads of {} bytes, {} writes of {} bytes in all",
        relayed.reads, relayed.read_bytes, relayed.writes, relayed.written_bytes
    )?;
    writeln!(
        out,
        "files          {} remembered, {} held",
        status.remembered_files, status.held_files
    )
}

fn print_volume(out: &mut impl Write, status: &VolumeStatus) -> io::Result<()> {
    let (size, block_size) = (status.size, status.block_size);
    writeln!(out, "mode           {}", one_line(&status.mode))?;
    writeln!(
        out,
        "size           {size} bytes in sectors of {block_size}"
    )?;
    writeln!(out, "verified       {} bytes", status.bytes_read)?;
    writeln!(out, "written        {} bytes", status.bytes_written)?;
    let storage = &status.storage;
    writeln!(
        out,
        "storage        {} reads of {} bytes, {} writes of {} bytes in all, {} flushes",
        storage.reads, storage.read_bytes, storage.writes, storage.written_bytes, storage.flushes
    )?;
    if let Some(sector) = status.unchecked_from {
        writeln!(
            out,
            "unchecked      from sector {sector} on, until its tags are recalculated"
        )?;
    }
    match &status.failure {
        Some(reason) => writeln!(out, "read-only      {}", one_line(reason)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use verimount::bridge::ReloadFailure;
    use verimount::mounts::OriginFailure;

    use super::*;

    /// Any process can serve a mount of this name and return any text.
    #[test]
    fn texts_are_printed_on_one_line_each() {
        let text = || "a\x1b[2J\nverimount: all is well".to_owned();
        let image = ImageStatus {
            digest: Some(text()),
            origin: Some(OriginStatus {
                last_failure: Some(OriginFailure {
                    at: u64::MAX,
                    reason: text(),
                }),
                cache: Some(CacheStatus {
                    directory: text(),
                    ..CacheStatus::default()
                }),
                ..OriginStatus::default()
            }),
            recent_failures: vec![Failure {
                file: text(),
                offset: 0,
                reason: text(),
            }],
            ..ImageStatus::default()
        };
        let volume = VolumeStatus {
            mode: text(),
            failure: Some(text()),
            recent_mismatches: vec![BadSector {
                sector: 0,
                reason: text(),
                is_discarded: false,
            }],
            ..VolumeStatus::default()
        };
        let bridge = BridgeStatus {
            policy: Some(PolicyStatus {
                file: text(),
                failure: Some(ReloadFailure {
                    at: u64::MAX,
                    reason: text(),
                }),
                ..PolicyStatus::default()
            }),
            ..BridgeStatus::default()
        };
        for (kind, own) in [
            (Kind::Image(image), 5),
            (Kind::Volume(volume), 3),
            (Kind::Bridge(bridge), 2),
        ] {
            let served = Served {
                source: text(),
                pin: Some(Pin::Key { id: text() }),
                ..Served::default()
            };
            let status = Status {
                served,
                requests: [(text(), 1)].into(),
                kind,
                ..Status::default()
            };
            let mut printed = Vec::new();
            print(&mut printed, &status).unwrap();
            let printed = String::from_utf8(printed).unwrap();
            let shown = r"a\x1b[2J\nverimount: all is well";
            assert_eq!(printed.matches(shown).count(), 3 + own, "{printed}");
            for line in printed.split_terminator('\n') {
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }
}
