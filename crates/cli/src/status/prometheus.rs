//! A status as metrics, in Prometheus' text format 0.0.4.

use std::io::{self, Write};

use verimount::bridge::{BridgeStatus, PolicyStatus};
use verimount::mounts::{CacheStatus, ImageStatus, Kind, OriginStatus, Status, VolumeStatus};

/// The metrics of any number of mounts and exports. All samples of a metric are printed together, as the format
/// requires.
#[derive(Default)]
pub(super) struct Metrics {
    families: Vec<Family>,
}

/// A metric with all of its samples, as lines.
struct Family {
    metric: Metric,
    samples: String,
}

impl Metrics {
    /// Adds all metrics of what is served at `target`, which is a label of each.
    pub(super) fn add(&mut self, status: &Status, target: &str) {
        let mut of = MetricsOf {
            metrics: self,
            target,
        };
        of.add_common(status);
        match &status.kind {
            Kind::Image(image) | Kind::File(image) => of.add_image(image),
            Kind::Bridge(bridge) => of.add_bridge(bridge),
            Kind::Volume(volume) => of.add_volume(volume),
            _ => {}
        }
    }

    /// Adds that what is at `target` does not tell its status.
    pub(super) fn add_silent(&mut self, target: &str) {
        let mut of = MetricsOf {
            metrics: self,
            target,
        };
        of.single(UP, 0);
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.families.iter().try_for_each(|family| {
            let (name, kind, help) = family.metric;
            let kind = match kind {
                Counter => "counter",
                Gauge => "gauge",
            };
            writeln!(out, "# HELP verimount_{name} {help}")?;
            writeln!(out, "# TYPE verimount_{name} {kind}")?;
            out.write_all(family.samples.as_bytes())
        })
    }

    /// The samples so far of a metric.
    fn samples_of(&mut self, metric: Metric) -> &mut String {
        let known = self
            .families
            .iter()
            .position(|family| family.metric.0 == metric.0);
        let index = known.unwrap_or_else(|| {
            let samples = String::new();
            self.families.push(Family { metric, samples });
            self.families.len() - 1
        });
        &mut self.families[index].samples
    }
}

/// The type of a metric.
#[derive(Clone, Copy)]
enum Type {
    /// A number that only grows.
    Counter,
    Gauge,
}

use Type::{Counter, Gauge};

/// The name of a metric after `verimount_`, its type, and its help text.
type Metric = (&'static str, Type, &'static str);

/// A label of a sample, besides the target.
type Label<'a> = (&'static str, &'a str);

/// The metrics of one mount or export.
struct MetricsOf<'a> {
    metrics: &'a mut Metrics,
    target: &'a str,
}

impl MetricsOf<'_> {
    fn add_common(&mut self, status: &Status) {
        self.single(UP, 1);
        let served = &status.served;
        let mut labels = vec![
            ("kind", status.kind.name()),
            ("source", served.source.as_str()),
        ];
        labels.extend(served.pin.as_ref().map(|pin| ("pin", pin.name())));
        labels.extend(status.digest().map(|digest| ("digest", digest)));
        let info = ("info", Gauge, "What is served; always 1.");
        self.family(info, [(labels, 1)]);
        let start = (
            "start_time_seconds",
            Gauge,
            "When it was started, in seconds since 1970.",
        );
        self.single(start, served.since);
        if let Some(size) = status.size() {
            self.single(
                ("size_bytes", Gauge, "Size of the image, file or disk."),
                size,
            );
        }
        let requests = (
            "requests_total",
            Counter,
            "Requests that reached the process, by operation.",
        );
        let counts = status.requests.iter();
        let counts = counts.map(|(name, &count)| (vec![("operation", name.as_str())], count));
        self.family(requests, counts);
        let mismatches = (
            "mismatches_total",
            Counter,
            "Reads of an image or file, or blocks of a volume, that did not match.",
        );
        self.single(mismatches, status.mismatches);
    }

    fn add_image(&mut self, image: &ImageStatus) {
        self.all([
            (VERIFIED, image.bytes_verified),
            (
                ("data_reads_total", Counter, "Reads of data."),
                image.data_requests,
            ),
            (
                ("tree_reads_total", Counter, "Reads of the Merkle tree."),
                image.tree_requests,
            ),
            (
                (
                    "tree_read_bytes_total",
                    Counter,
                    "Bytes of the Merkle tree read.",
                ),
                image.tree_bytes,
            ),
        ]);
        if let Some(origin) = &image.origin {
            self.add_origin(origin);
        }
    }

    fn add_origin(&mut self, origin: &OriginStatus) {
        self.all([
            (
                (
                    "origin_requests_total",
                    Counter,
                    "Requests that were sent for content.",
                ),
                origin.requests,
            ),
            (
                (
                    "origin_received_bytes_total",
                    Counter,
                    "Bytes of content received.",
                ),
                origin.bytes_received,
            ),
            (
                (
                    "origin_rejected_bytes_total",
                    Counter,
                    "Bytes received that did not match.",
                ),
                origin.bytes_rejected,
            ),
        ]);
        let causes = [
            ("busy", origin.retries_busy),
            ("unreachable", origin.retries_unreachable),
            ("broken", origin.retries_broken),
        ];
        let causes = causes.map(|(cause, count)| (vec![("cause", cause)], count));
        self.family(
            (
                "origin_retries_total",
                Counter,
                "Attempts that failed and were repeated, by cause.",
            ),
            causes,
        );
        if let Some(failure) = &origin.last_failure {
            let last = (
                "origin_last_failure_time_seconds",
                Gauge,
                "When a request failed last, in seconds since 1970.",
            );
            self.single(last, failure.at);
        }
        if let Some(cache) = &origin.cache {
            self.add_cache(cache);
        }
    }

    fn add_cache(&mut self, cache: &CacheStatus) {
        self.all([
            (
                (
                    "cache_read_bytes_total",
                    Counter,
                    "Bytes read from the cache.",
                ),
                cache.bytes_read,
            ),
            (
                (
                    "cache_written_bytes_total",
                    Counter,
                    "Bytes written to the cache.",
                ),
                cache.bytes_written,
            ),
            (
                (
                    "cache_rejected_bytes_total",
                    Counter,
                    "Bytes of the cache that did not match, and were fetched again.",
                ),
                cache.bytes_rejected,
            ),
            (
                (
                    "cache_evicted_bytes_total",
                    Counter,
                    "Bytes evicted from the cache.",
                ),
                cache.bytes_evicted,
            ),
            (
                (
                    "cache_failures_total",
                    Counter,
                    "Reads and writes of the cache that failed.",
                ),
                cache.failures,
            ),
        ]);
    }

    fn add_policy(&mut self, policy: &PolicyStatus) {
        let labels = || vec![("file", policy.file.as_str())];
        let loaded = (
            "policy_load_time_seconds",
            Gauge,
            "When the policy in force was read, in seconds since 1970.",
        );
        self.family(loaded, [(labels(), policy.loaded)]);
        let failed = (
            "policy_reload_failed",
            Gauge,
            "1 if the policy could not be read again, so that the old one is still in force.",
        );
        self.family(failed, [(labels(), policy.failure.is_some().into())]);
    }

    fn add_bridge(&mut self, bridge: &BridgeStatus) {
        if let Some(policy) = &bridge.policy {
            self.add_policy(policy);
        }
        let (opens, passthrough, relayed) = (&bridge.opens, &bridge.passthrough, &bridge.relayed);
        let ways = [
            ("passthrough", opens.passthrough),
            ("relay", opens.relay),
            ("denied", opens.denied),
        ];
        let ways = ways.map(|(way, count)| (vec![("way", way)], count));
        self.family(
            ("opens_total", Counter, "Opens, by how they were served."),
            ways,
        );
        self.all([
            (
                (
                    "audited_total",
                    Counter,
                    "Opens that an audit rule matched.",
                ),
                opens.audited,
            ),
            (
                (
                    "passthrough_open",
                    Gauge,
                    "Opens that are passed through now.",
                ),
                passthrough.open,
            ),
            (
                (
                    "passthrough_registered_total",
                    Counter,
                    "Files registered with the kernel.",
                ),
                passthrough.registered,
            ),
            (
                (
                    "passthrough_fallbacks_total",
                    Counter,
                    "Opens relayed because the kernel would not pass them through.",
                ),
                passthrough.fallbacks,
            ),
            (
                (
                    "relayed_read_bytes_total",
                    Counter,
                    "Bytes read through the process.",
                ),
                relayed.read_bytes,
            ),
            (
                (
                    "relayed_written_bytes_total",
                    Counter,
                    "Bytes written through the process.",
                ),
                relayed.written_bytes,
            ),
            (
                (
                    "remembered_files",
                    Gauge,
                    "Files that the kernel remembers.",
                ),
                bridge.remembered_files as u64,
            ),
            (
                ("held_files", Gauge, "Files that are kept open."),
                bridge.held_files as u64,
            ),
        ]);
    }

    fn add_volume(&mut self, volume: &VolumeStatus) {
        let storage = &volume.storage;
        self.all([
            (VERIFIED, volume.bytes_read),
            (
                ("written_bytes_total", Counter, "Bytes written."),
                volume.bytes_written,
            ),
            (
                (
                    "failed",
                    Gauge,
                    "1 if a write or flush has failed and the volume is read-only.",
                ),
                volume.failure.is_some().into(),
            ),
            (
                (
                    "unchecked",
                    Gauge,
                    "1 while tags are recalculated, so that not all blocks are checked.",
                ),
                volume.unchecked_from.is_some().into(),
            ),
            (
                (
                    "storage_reads_total",
                    Counter,
                    "Reads of the volume's devices.",
                ),
                storage.reads,
            ),
            (
                (
                    "storage_read_bytes_total",
                    Counter,
                    "Bytes read from the volume's devices.",
                ),
                storage.read_bytes,
            ),
            (
                (
                    "storage_writes_total",
                    Counter,
                    "Writes to the volume's devices.",
                ),
                storage.writes,
            ),
            (
                (
                    "storage_written_bytes_total",
                    Counter,
                    "Bytes written to the volume's devices.",
                ),
                storage.written_bytes,
            ),
            (
                (
                    "storage_flushes_total",
                    Counter,
                    "Flushes of the volume's devices.",
                ),
                storage.flushes,
            ),
        ]);
    }

    fn all<const N: usize>(&mut self, metrics: [(Metric, u64); N]) {
        for (metric, value) in metrics {
            self.single(metric, value);
        }
    }

    fn single(&mut self, metric: Metric, value: u64) {
        self.family(metric, [(Vec::new(), value)]);
    }

    /// Adds samples of a metric.
    fn family<'l>(
        &mut self,
        metric: Metric,
        samples: impl IntoIterator<Item = (Vec<Label<'l>>, u64)>,
    ) {
        let name = metric.0;
        let target = escaped(self.target);
        let lines = self.metrics.samples_of(metric);
        for (labels, value) in samples {
            let labels = labels
                .into_iter()
                .map(|(label, text)| format!(",{label}=\"{}\"", escaped(text)));
            let labels: String = labels.collect();
            lines.push_str(&format!(
                "verimount_{name}{{target=\"{target}\"{labels}}} {value}\n"
            ));
        }
    }
}

/// Whether there is a status.
const UP: Metric = (
    "up",
    Gauge,
    "1 if it tells its status; 0 if its process has ended, or does not answer.",
);

/// The verified bytes of an image or volume.
const VERIFIED: Metric = ("verified_bytes_total", Counter, "Bytes read that matched.");

/// A label's value. Backslashes, quotes and newlines are escaped, as are all control characters.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', r"\\").replace('"', r#"\""#);
    let printable = |character: char| match character {
        '\n' => r"\n".to_owned(),
        other if other.is_control() => '\u{fffd}'.to_string(),
        other => other.to_string(),
    };
    text.chars().map(printable).collect()
}
