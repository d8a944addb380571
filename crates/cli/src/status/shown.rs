//! What is shown of a status. Its texts come from the process that serves the directory and are not trusted.

use std::{
    fmt::Display,
    io::{self, Write},
    time::{Duration, SystemTime},
};

use indicatif::HumanDuration;
use verimount::{MirrorStats, Pin, PlaceStats};
use verimount_host::{
    bridge::{BridgeStatus, PolicyStatus},
    mounts::{
        CacheStatus, ImageStatus, Kind, OriginReplacement, OriginStatus, ResidentStatus, Served,
        Status, StorageCounts, VolumeStatus,
    },
    one_line,
    sandbox::Held,
};

use super::prometheus::Metric;

/// The first version of Landlock that holds back connections.
const LANDLOCK_WITH_NETWORK: u32 = 4;

/// A status in two forms, each in its own order.
#[derive(Default)]
pub(super) struct Shown {
    lines: Vec<String>,
    pub(super) metrics: Vec<Metric>,
}

impl Shown {
    pub(super) fn new(status: &Status) -> Self {
        let mut shown = Self::default();
        shown.add_common(status);
        match &status.kind {
            Kind::Image(image) | Kind::File(image) => shown.add_image(image),
            Kind::Bridge(bridge) => shown.add_bridge(bridge),
            Kind::Volume(volume) => shown.add_volume(volume),
            _ => {}
        }
        shown.add_requests(status);
        shown
    }

    /// What is shown of a mount or export that does not tell its status, for this reason.
    pub(super) fn silent(reason: &str) -> Self {
        let mut shown = Self::default();
        shown.line("no status", one_line(reason));
        shown.add_up(0);
        shown
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.lines
            .iter()
            .try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Adds a line of text. One without a label continues the line before.
    fn line(&mut self, label: &str, text: impl Display) {
        self.lines.push(format!("{label:<15}{text}"));
    }

    /// Adds a metric with one sample.
    fn metric(&mut self, name: &'static str, value: impl Display) {
        self.labelled(name, &[], value);
    }

    /// Adds a metric with one sample, which has these further labels.
    fn labelled(&mut self, name: &'static str, labels: &[(&str, &str)], value: impl Display) {
        self.metrics.push(Metric::new(name).sample(labels, value));
    }

    /// Adds a metric with a sample for each value of a label.
    fn metric_by<'l>(
        &mut self,
        name: &'static str,
        label: &str,
        samples: impl IntoIterator<Item = (&'l str, u64)>,
    ) {
        let samples = samples.into_iter();
        let metric = samples.fold(Metric::new(name), |metric, (text, value)| {
            metric.sample(&[(label, text)], value)
        });
        self.metrics.push(metric);
    }

    fn add_common(&mut self, status: &Status) {
        let Served {
            source,
            pin,
            daemon,
            since,
            sandbox,
        } = &status.served;
        let kind = status.kind.name();
        self.line("source", one_line(source));
        self.line("kind", kind);
        if let Some(pin) = pin {
            self.line("pinned by", pin_text(pin));
        }
        if let Some(daemon) = daemon {
            self.line(
                "served by",
                format_args!("process {}, for {}", daemon.pid(), age(*since)),
            );
        }
        self.line("sandbox", sandbox_text(sandbox.as_ref()));
        self.add_up(1);
        let mut labels = vec![("kind", kind), ("source", source.as_str())];
        labels.extend(pin.as_ref().map(|pin| ("pin", pin.name())));
        labels.extend(status.digest().map(|digest| ("digest", digest)));
        self.labelled("info", &labels, 1);
        self.metric("start_time_seconds", since);
        self.metric("sandboxed", u8::from(sandbox.is_some()));
        if let Some(size) = status.size() {
            self.metric("size_bytes", size);
        }
        let requests = status
            .requests
            .iter()
            .map(|(name, count)| (name.as_str(), *count));
        self.metric_by("requests_total", "operation", requests);
        self.metric("mismatches_total", status.mismatches);
    }

    fn add_up(&mut self, up: u8) {
        self.metric("up", up);
    }

    fn add_image(&mut self, image: &ImageStatus) {
        let ImageStatus {
            digest,
            size,
            data_requests,
            tree_requests,
            tree_bytes,
            ..
        } = image;
        self.line(
            "digest",
            one_line(digest.as_deref().unwrap_or("none: nothing is verified")),
        );
        self.line("size", format_args!("{size} bytes"));
        self.add_verified(image.bytes_verified);
        self.line("data requests", data_requests);
        self.metric("data_reads_total", data_requests);
        self.line(
            "tree requests",
            format_args!("{tree_requests} of {tree_bytes} bytes in all"),
        );
        self.metric("tree_reads_total", tree_requests);
        self.metric("tree_read_bytes_total", tree_bytes);
        if let Some(origin) = &image.origin {
            self.add_origin(origin);
        }
        if let Some(mirrors) = &image.mirrors {
            self.add_mirrors(mirrors);
        }
        if let Some(resident) = &image.resident {
            self.add_resident(resident);
        }
    }

    fn add_mirrors(&mut self, mirrors: &MirrorStats) {
        let MirrorStats {
            healed,
            ranges_repaired: repaired,
            places,
        } = mirrors;
        self.line(
            "mirrors",
            format_args!("{healed} reads answered by them, {repaired} ranges repaired"),
        );
        for place in places {
            let rests = if place.rests { "; not asked now" } else { "" };
            self.line(
                "",
                format_args!(
                    "{}: {} reads, {} failed, {} did not match, {} bytes repaired{rests}",
                    one_line(&place.place),
                    place.asked,
                    place.failed,
                    place.wrong,
                    place.bytes_repaired,
                ),
            );
        }
        self.metric("healed_reads_total", healed);
        self.metric("repaired_ranges_total", repaired);
        let mut by_place = |name, count: fn(&PlaceStats) -> u64| {
            let samples = places.iter();
            let samples = samples.map(|place| (place.place.as_str(), count(place)));
            self.metric_by(name, "place", samples);
        };
        by_place("place_reads_total", |place| place.asked);
        by_place("place_failures_total", |place| place.failed);
        by_place("place_mismatches_total", |place| place.wrong);
        by_place("place_repaired_bytes_total", |place| place.bytes_repaired);
        by_place("place_rests", |place| place.rests.into());
    }

    fn add_resident(&mut self, resident: &ResidentStatus) {
        let ResidentStatus {
            files,
            bytes,
            limit,
            loading,
            loading_bytes,
            loads,
            evictions,
            failures,
            unfit,
        } = resident;
        self.line(
            "resident",
            format_args!("{files} files; {bytes} bytes of {limit}"),
        );
        self.line(
            "",
            format_args!(
                "{loads} loaded, {evictions} evicted, {failures} failed; {unfit} opens found no room"
            ),
        );
        if *loading > 0 {
            self.line(
                "loading",
                format_args!("{loading} files, of which {loading_bytes} bytes are left"),
            );
        }
        self.metric("resident_files", files);
        self.metric("resident_bytes", bytes);
        self.metric("resident_limit_bytes", limit);
        self.metric("resident_loading_files", loading);
        self.metric("resident_loading_bytes", loading_bytes);
        self.metric("resident_loads_total", loads);
        self.metric("resident_evictions_total", evictions);
        self.metric("resident_failures_total", failures);
        self.metric("resident_unfit_opens_total", unfit);
    }

    /// The bytes of an image or a volume.
    fn add_verified(&mut self, bytes: u64) {
        self.line("verified", format_args!("{bytes} bytes"));
        self.metric("verified_bytes_total", bytes);
    }

    fn add_origin(&mut self, origin: &OriginStatus) {
        let (requests, received, rejected) = (
            origin.requests,
            origin.bytes_received,
            origin.bytes_rejected,
        );
        self.line(
            "received",
            format_args!("{received} bytes by {requests} requests; {rejected} did not match"),
        );
        if origin.fetch_memory_limit > 0 {
            let (memory, limit) = (origin.fetch_memory, origin.fetch_memory_limit);
            self.line("in memory", format_args!("{memory} bytes of {limit}"));
            self.metric("fetch_memory_bytes", memory);
            self.metric("fetch_memory_limit_bytes", limit);
        }
        self.metric("origin_requests_total", requests);
        self.metric("origin_received_bytes_total", received);
        self.metric("origin_rejected_bytes_total", rejected);
        self.metric("origin_changes_total", origin.changes);
        self.metric("origin_replaced", u8::from(origin.replaced.is_some()));
        let (busy, unreachable, broken) = (
            origin.retries_busy,
            origin.retries_unreachable,
            origin.retries_broken,
        );
        self.line(
            "retries",
            format_args!(
                "{busy} as the server was busy, {unreachable} without connection, \
                 {broken} broken off"
            ),
        );
        self.metric_by(
            "origin_retries_total",
            "cause",
            [
                ("busy", busy),
                ("unreachable", unreachable),
                ("broken", broken),
            ],
        );
        if let Some(failure) = &origin.last_failure {
            self.line(
                "last failure",
                format_args!("{} ago: {}", age(failure.at), one_line(&failure.reason)),
            );
            self.metric("origin_last_failure_time_seconds", failure.at);
        }
        if let Some(replaced) = &origin.replaced {
            self.add_replacement(replaced);
        }
        if let Some(cache) = &origin.cache {
            self.add_cache(cache);
        }
    }

    fn add_replacement(&mut self, replaced: &OriginReplacement) {
        self.line(
            "REPLACED",
            format_args!(
                "at {} by another release with the same key, last seen {} ago:",
                one_line(&replaced.place),
                age(replaced.at)
            ),
        );
        self.line("", one_line(&replaced.digest));
        self.line(
            "",
            "what is neither in the cache nor at a mirror cannot be read",
        );
    }

    fn add_cache(&mut self, cache: &CacheStatus) {
        let CacheStatus {
            directory,
            bytes_read: read,
            bytes_written: written,
            bytes_rejected: rejected,
            bytes_evicted: evicted,
            failures,
        } = cache;
        self.line("cache", one_line(directory));
        self.line(
            "",
            format_args!(
                "{read} bytes read, {written} written, {evicted} evicted; \
                 {rejected} did not match, {failures} failures"
            ),
        );
        self.metric("cache_read_bytes_total", read);
        self.metric("cache_written_bytes_total", written);
        self.metric("cache_rejected_bytes_total", rejected);
        self.metric("cache_evicted_bytes_total", evicted);
        self.metric("cache_failures_total", failures);
    }

    fn add_bridge(&mut self, bridge: &BridgeStatus) {
        let BridgeStatus {
            opens,
            passthrough,
            relayed,
            remembered_files,
            held_files,
            policy,
        } = bridge;
        if let Some(policy) = policy {
            self.add_policy(policy);
        }
        self.line(
            "opens",
            format_args!(
                "{} passed through, {} relayed, {} denied; {} audited",
                opens.passthrough, opens.relay, opens.denied, opens.audited
            ),
        );
        self.line(
            "",
            format_args!(
                "{} served otherwise, as the file was open already",
                opens.followed
            ),
        );
        self.metric_by(
            "opens_total",
            "way",
            [
                ("passthrough", opens.passthrough),
                ("relay", opens.relay),
                ("denied", opens.denied),
            ],
        );
        self.metric("audited_total", opens.audited);
        self.line(
            "passthrough",
            format_args!(
                "{} open now, {} registered, {} from the cache, {} kept",
                passthrough.open, passthrough.registered, passthrough.reused, passthrough.idle
            ),
        );
        self.metric("passthrough_open", passthrough.open);
        self.metric("passthrough_registered_total", passthrough.registered);
        let fallbacks = passthrough.fallbacks;
        match &passthrough.refusal {
            Some(reason) => self.line(
                "fallbacks",
                format_args!("{fallbacks}: {}", one_line(reason)),
            ),
            None => self.line("fallbacks", fallbacks),
        }
        self.metric("passthrough_fallbacks_total", fallbacks);
        self.line(
            "relayed",
            format_args!(
                "{} reads of {} bytes, {} writes of {} bytes in all",
                relayed.reads, relayed.read_bytes, relayed.writes, relayed.written_bytes
            ),
        );
        self.metric("relayed_read_bytes_total", relayed.read_bytes);
        self.metric("relayed_written_bytes_total", relayed.written_bytes);
        self.line(
            "files",
            format_args!("{remembered_files} remembered, {held_files} held"),
        );
        self.metric("remembered_files", remembered_files);
        self.metric("held_files", held_files);
    }

    fn add_policy(&mut self, policy: &PolicyStatus) {
        let PolicyStatus {
            file,
            loaded,
            failure,
        } = policy;
        let (label, old) = ([("file", file.as_str())], age(*loaded));
        self.line(
            "policy",
            format_args!("{}, loaded {old} ago", one_line(file)),
        );
        if let Some(failure) = failure {
            self.line(
                "RELOAD FAILED",
                format_args!("{} ago: {}", age(failure.at), one_line(&failure.reason)),
            );
            self.line(
                "",
                format_args!("the old policy, loaded {old} ago, is still in force"),
            );
        }
        self.labelled("policy_load_time_seconds", &label, loaded);
        self.labelled("policy_reload_failed", &label, u8::from(failure.is_some()));
    }

    fn add_volume(&mut self, volume: &VolumeStatus) {
        let VolumeStatus {
            mode,
            size,
            block_size,
            bytes_written: written,
            unchecked_from,
            failure,
            ..
        } = volume;
        self.line("mode", one_line(mode));
        self.line(
            "size",
            format_args!("{size} bytes in sectors of {block_size}"),
        );
        self.add_verified(volume.bytes_read);
        self.line("written", format_args!("{written} bytes"));
        self.metric("written_bytes_total", written);
        self.metric("failed", u8::from(failure.is_some()));
        self.metric("unchecked", u8::from(unchecked_from.is_some()));
        self.add_storage(&volume.storage);
        if let Some(sector) = unchecked_from {
            self.line(
                "unchecked",
                format_args!("from sector {sector} on, until its tags are recalculated"),
            );
        }
        if let Some(reason) = failure {
            self.line("read-only", one_line(reason));
        }
    }

    fn add_storage(&mut self, storage: &StorageCounts) {
        let StorageCounts {
            reads,
            read_bytes: read,
            writes,
            written_bytes: written,
            flushes,
            ..
        } = storage;
        self.line(
            "storage",
            format_args!(
                "{reads} reads of {read} bytes, \
                 {writes} writes of {written} bytes in all, {flushes} flushes"
            ),
        );
        self.metric("storage_reads_total", reads);
        self.metric("storage_read_bytes_total", read);
        self.metric("storage_writes_total", writes);
        self.metric("storage_written_bytes_total", written);
        self.metric("storage_flushes_total", flushes);
    }

    /// Adds the last lines: requests and mismatches, whose metrics come before those of the kind.
    fn add_requests(&mut self, status: &Status) {
        if !status.requests.is_empty() {
            let each = status.requests.iter();
            let each = each.map(|(name, count)| format!("{count} {}", one_line(name)));
            self.line("asked", each.collect::<Vec<_>>().join(", "));
        }
        if !matches!(status.kind, Kind::Bridge(_)) {
            self.line("mismatches", status.mismatches);
        }
        match &status.kind {
            Kind::Image(image) | Kind::File(image) => {
                let failures = image.recent_failures.iter();
                self.lines.extend(failures.map(|failure| {
                    let (file, reason) = (one_line(&failure.file), one_line(&failure.reason));
                    format!("  {file} at {}: {reason}", failure.offset)
                }));
                if may_be_replaced(status, image) {
                    self.lines.push(MAY_BE_REPLACED.to_owned());
                }
            }
            Kind::Volume(volume) => {
                let bad = volume.recent_mismatches.iter();
                self.lines
                    .extend(bad.map(|bad| format!("  {}", one_line(&bad.reason))));
            }
            _ => {}
        }
    }
}

/// What is said of mismatches if they may be no damage.
const MAY_BE_REPLACED: &str = "  the file was changed on the server: if a release was published in its place, only a mount by key (--key) can tell";

/// Whether mismatches may be those of another release, which nothing could prove.
fn may_be_replaced(status: &Status, image: &ImageStatus) -> bool {
    let changes = image.origin.as_ref().map_or(0, |origin| origin.changes);
    let is_by_key = matches!(status.served.pin, Some(Pin::Key { .. }));
    status.mismatches > 0 && changes > 0 && !is_by_key
}

/// What a process has given up.
fn sandbox_text(sandbox: Option<&Held>) -> String {
    let Some(held) = sandbox else {
        return "none: it keeps all rights of the user who mounted".to_owned();
    };
    let mut parts = Vec::new();
    if held.files {
        parts.push(format!("only its own files (Landlock {})", held.landlock));
    }
    if held.system_calls {
        parts.push("only known system calls".to_owned());
    }
    if !held.network && (held.landlock >= LANDLOCK_WITH_NETWORK || held.system_calls) {
        parts.push("no network".to_owned());
    }
    let kept: Vec<_> = held
        .capabilities
        .iter()
        .map(|name| one_line(name).to_string())
        .collect();
    parts.push(if kept.is_empty() {
        "no capabilities".to_owned()
    } else {
        format!("capabilities {}", kept.join(" "))
    });
    parts.join(", ")
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

/// The time since a moment, which is in seconds since 1970.
fn age(moment: u64) -> HumanDuration {
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(moment));
    let since = moment.and_then(|moment| moment.elapsed().ok());
    HumanDuration(since.unwrap_or_default())
}
