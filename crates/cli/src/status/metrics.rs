//! Metrics in Prometheus' text format 0.0.4.

use std::io::{self, Write};

use serde_json::{Value, json};
use verimount::Pin;
use verimount_host::mounts::Status;

use super::fields::fields;
use crate::template::objects;

/// The metrics, one a line: its name without `verimount_`, and its labels besides the target; the field of a status that it
/// shows; and what it means.
///
/// A label has a value of its own, or that of the field with its name, which is beside that of the metric. A question mark stands for
/// whether there is anything in the field. The name ends with `_total` if the number only grows.
pub(super) const METRICS: &str = "\
up                                     up                             1 if it tells its status; 0 if its process has ended, or does not answer.
info{kind,source,pin,digest}           version?                       What is served; always 1.
start_time_seconds                     since                          When it was started, in seconds since 1970.
sandboxed                              sandbox?                       Whether the process has given up rights that it does not need.
size_bytes                             size                           Size of the image, file or disk.
requests_total{operation}              requests.count                 Requests that reached the process, by operation.
mismatches_total                       mismatches                     Reads of an image or file, or blocks of a volume, that did not match.
verified_bytes_total                   bytes_verified                 Bytes read that matched.
verified_bytes_total                   bytes_read                     Bytes read that matched.
data_reads_total                       data_requests                  Reads of data.
tree_reads_total                       tree_requests                  Reads of the Merkle tree.
tree_read_bytes_total                  tree_bytes                     Bytes of the Merkle tree read.
fetch_memory_bytes                     origin.fetch_memory            Memory that keeps what was fetched.
fetch_memory_limit_bytes               origin.fetch_memory_limit      The most memory that keeps what was fetched, but for what readers wait for.
origin_requests_total                  origin.requests                Requests that were sent for content.
origin_received_bytes_total            origin.bytes_received          Bytes of content received.
origin_rejected_bytes_total            origin.bytes_rejected          Bytes received that did not match.
origin_changes_total                   origin.changes                 Times that a server had another version of a file than before.
origin_replaced                        origin.replaced?               1 if another release with the same key was found in the place of this one.
origin_retries_total{cause=busy}       origin.retries_busy            Attempts that failed and were repeated, by cause.
origin_retries_total{cause=unreachable} origin.retries_unreachable    Attempts that failed and were repeated, by cause.
origin_retries_total{cause=broken}     origin.retries_broken          Attempts that failed and were repeated, by cause.
origin_last_failure_time_seconds       origin.last_failure.at         When a request failed last, in seconds since 1970.
cache_read_bytes_total                 origin.cache.bytes_read        Bytes read from the cache.
cache_written_bytes_total              origin.cache.bytes_written     Bytes written to the cache.
cache_rejected_bytes_total             origin.cache.bytes_rejected    Bytes of the cache that did not match, and were fetched again.
cache_evicted_bytes_total              origin.cache.bytes_evicted     Bytes evicted from the cache.
cache_failures_total                   origin.cache.failures          Reads and writes of the cache, and evictions from it, that failed.
healed_reads_total                     mirrors.healed                 Reads that another place than the first answered.
repaired_ranges_total                  mirrors.ranges_repaired        Ranges that were replaced by right bytes from a mirror.
place_reads_total{place}               mirrors.places.asked           Reads that a place of the content was asked for.
place_failures_total{place}            mirrors.places.failed          Reads that a place failed, or was late for.
place_mismatches_total{place}          mirrors.places.wrong           Ranges from a place that did not match.
place_repaired_bytes_total{place}      mirrors.places.bytes_repaired  Bytes that were replaced at a place by right ones.
place_rests{place}                     mirrors.places.rests           1 while a place is not asked, as it has failed.
resident_files                         resident.files                 Files that are kept in memory.
resident_bytes                         resident.bytes                 Memory that they take, also those that are only mapped any more.
resident_limit_bytes                   resident.limit                 The most memory that they may take.
resident_loading_files                 resident.loading               Files that are being loaded.
resident_loading_bytes                 resident.loading_bytes         Bytes of them that nobody has begun to read.
resident_loads_total                   resident.loads                 Files that were loaded, each time.
resident_evictions_total               resident.evictions             Files that were given up, for others or as memory was short.
resident_failures_total                resident.failures              Loads that failed, so that the file is read as it is needed.
resident_unfit_opens_total             resident.unfit                 Opens of files for which there was no room.
policy_load_time_seconds{file}         policy.loaded                  When the policy in force was read, in seconds since 1970.
policy_reload_failed{file}             policy.failure?                1 if the policy could not be read again, so that the old one is still in force.
opens_total{way=passthrough}           opens.passthrough              Opens, by how they were served.
opens_total{way=relay}                 opens.relay                    Opens, by how they were served.
opens_total{way=denied}                opens.denied                   Opens, by how they were served.
audited_total                          opens.audited                  Opens that an audit rule matched.
rule_decisions_total{rule}             rules.decided                  What a rule has audited or denied.
rule_lost_total{rule}                  rules.lost                     Decisions of a rule that went on without a record.
rule_refused_total{rule}               rules.refused                  Decisions of a rule that failed, as they could not be recorded.
audit_waiting                          audit.waiting                  Records that are not written yet.
audit_failed                           audit.failure?                 1 while the audit log cannot be written.
passthrough_open                       passthrough.open               Opens that are passed through now.
passthrough_registered_total           passthrough.registered         Files registered with the kernel.
passthrough_fallbacks_total            passthrough.fallbacks          Opens relayed because the kernel would not pass them through.
relayed_read_bytes_total               relayed.read_bytes             Bytes read through the process.
relayed_written_bytes_total            relayed.written_bytes          Bytes written through the process.
remembered_files                       remembered_files               Files that the kernel remembers.
held_files                             held_files                     Files that are kept open.
written_bytes_total                    bytes_written                  Bytes written.
failed                                 failure?                       1 if a write or flush has failed and the volume is read-only.
unchecked                              unchecked_from?                1 while tags are recalculated, so that not all blocks are checked.
storage_reads_total                    storage.reads                  Reads of the volume's devices.
storage_read_bytes_total               storage.read_bytes             Bytes read from the volume's devices.
storage_writes_total                   storage.writes                 Writes to the volume's devices.
storage_written_bytes_total            storage.written_bytes          Bytes written to the volume's devices.
storage_flushes_total                  storage.flushes                Flushes of the volume's devices.
";

/// The metrics of any number of mounts and exports. All samples of a metric are printed together, as the format
/// requires.
#[derive(Default)]
pub(super) struct Metrics {
    families: Vec<Family>,
}

/// A metric with all of its samples: their labels and values.
struct Family {
    name: &'static str,
    help: &'static str,
    samples: Vec<String>,
}

impl Metrics {
    /// Adds the metrics of what is served at `target`, which is a label of each; only one if it does not tell its status.
    pub(super) fn add(&mut self, target: &str, status: Option<&Status>) -> io::Result<()> {
        let told = status.map_or_else(|| Ok(json!({"up": false})), told)?;
        let target = escaped(target);
        for (metric, path, help) in METRICS.lines().filter_map(columns) {
            let (name, labels) = metric.split_once('{').unwrap_or((metric, ""));
            let labels = labels.trim_end_matches('}').split(',');
            let (path, field) = path.rsplit_once('.').unwrap_or(("", path));
            for object in objects(&told, path) {
                if let Some(number) = number(object, field) {
                    let labels = labels.clone().filter_map(|label| labelled(label, object));
                    let labels: String = labels.collect();
                    let sample = format!("{{target=\"{target}\"{labels}}} {number}");
                    self.family(name, help).samples.push(sample);
                }
            }
        }
        Ok(())
    }

    fn family(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        let known = self.families.iter().position(|family| family.name == name);
        let index = known.unwrap_or_else(|| {
            let samples = Vec::new();
            self.families.push(Family {
                name,
                help,
                samples,
            });
            self.families.len() - 1
        });
        &mut self.families[index]
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        self.families.iter().try_for_each(|family| {
            let Family {
                name,
                help,
                samples,
            } = family;
            let is_counter = name.ends_with("_total");
            let kind = if is_counter { "counter" } else { "gauge" };
            writeln!(out, "# HELP verimount_{name} {help}")?;
            writeln!(out, "# TYPE verimount_{name} {kind}")?;
            let mut samples = samples.iter();
            samples.try_for_each(|sample| writeln!(out, "verimount_{name}{sample}"))
        })
    }
}

/// The columns of a line.
pub(super) fn columns(line: &str) -> Option<(&str, &str, &str)> {
    let (metric, rest) = line.split_once(' ')?;
    let (field, help) = rest.trim_start().split_once(' ')?;
    Some((metric, field, help.trim_start()))
}

/// What the metrics show of a status.
fn told(status: &Status) -> serde_json::Result<Value> {
    let mut fields = fields(status)?;
    fields["up"] = true.into();
    fields["pin"] = status.served.pin.as_ref().map(Pin::name).into();
    let requests = status.requests.iter();
    fields["requests"] = requests
        .map(|(operation, count)| json!({"operation": operation, "count": count}))
        .collect();
    Ok(fields)
}

/// The number in a field, if there is one.
fn number(object: &Value, field: &str) -> Option<String> {
    if let Some(name) = field.strip_suffix('?') {
        return Some(u8::from(!object.get(name)?.is_null()).to_string());
    }
    match object.get(field)? {
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_so) => Some(u8::from(*is_so).to_string()),
        _ => None,
    }
}

/// A label, after a comma; `None` if it has no value.
fn labelled(label: &str, beside: &Value) -> Option<String> {
    let (name, value) = match label.split_once('=') {
        Some(given) => given,
        None => (label, beside.get(label)?.as_str()?),
    };
    Some(format!(",{name}=\"{}\"", escaped(value)))
}

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
