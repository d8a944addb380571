//! What metrics mean.

/// The help for a metric, by its name without `verimount_`.
pub(super) fn help(metric: &str) -> &'static str {
    match metric {
        "info" => "What is served; always 1.",
        "sandboxed" => "Whether the process has given up rights that it does not need.",
        "start_time_seconds" => "When it was started, in seconds since 1970.",
        "size_bytes" => "Size of the image, file or disk.",
        "mismatches_total" => {
            "Reads of an image or file, or blocks of a volume, that did not match."
        }
        "up" => "1 if it tells its status; 0 if its process has ended, or does not answer.",
        "data_reads_total" => "Reads of data.",
        "tree_reads_total" => "Reads of the Merkle tree.",
        "tree_read_bytes_total" => "Bytes of the Merkle tree read.",
        "verified_bytes_total" => "Bytes read that matched.",
        "fetch_memory_bytes" => "Memory that keeps what was fetched.",
        "fetch_memory_limit_bytes" => {
            "The most memory that keeps what was fetched, but for what readers wait for."
        }
        "origin_requests_total" => "Requests that were sent for content.",
        "origin_received_bytes_total" => "Bytes of content received.",
        "origin_rejected_bytes_total" => "Bytes received that did not match.",
        "origin_changes_total" => "Times that a server had another version of a file than before.",
        "origin_replaced" => {
            "1 if another release with the same key was found in the place of this one."
        }
        "origin_last_failure_time_seconds" => "When a request failed last, in seconds since 1970.",
        "cache_read_bytes_total" => "Bytes read from the cache.",
        "cache_written_bytes_total" => "Bytes written to the cache.",
        "cache_rejected_bytes_total" => {
            "Bytes of the cache that did not match, and were fetched again."
        }
        "cache_evicted_bytes_total" => "Bytes evicted from the cache.",
        "cache_failures_total" => {
            "Reads and writes of the cache, and evictions from it, that failed."
        }
        "healed_reads_total" => "Reads that another place than the first answered.",
        "repaired_ranges_total" => "Ranges that were replaced by right bytes from a mirror.",
        "place_reads_total" => "Reads that a place of the content was asked for.",
        "place_failures_total" => "Reads that a place failed, or was late for.",
        "place_mismatches_total" => "Ranges from a place that did not match.",
        "place_repaired_bytes_total" => "Bytes that were replaced at a place by right ones.",
        "place_rests" => "1 while a place is not asked, as it has failed.",
        "resident_files" => "Files that are kept in memory.",
        "resident_bytes" => "Memory that they take, also those that are only mapped any more.",
        "resident_limit_bytes" => "The most memory that they may take.",
        "resident_loading_files" => "Files that are being loaded.",
        "resident_loading_bytes" => "Bytes of them that nobody has begun to read.",
        "resident_loads_total" => "Files that were loaded, each time.",
        "resident_evictions_total" => {
            "Files that were given up, for others or as memory was short."
        }
        "resident_failures_total" => "Loads that failed, so that the file is read as it is needed.",
        "resident_unfit_opens_total" => "Opens of files for which there was no room.",
        "audited_total" => "Opens that an audit rule matched.",
        "passthrough_open" => "Opens that are passed through now.",
        "passthrough_registered_total" => "Files registered with the kernel.",
        "passthrough_fallbacks_total" => {
            "Opens relayed because the kernel would not pass them through."
        }
        "relayed_read_bytes_total" => "Bytes read through the process.",
        "relayed_written_bytes_total" => "Bytes written through the process.",
        "remembered_files" => "Files that the kernel remembers.",
        "held_files" => "Files that are kept open.",
        "policy_load_time_seconds" => "When the policy in force was read, in seconds since 1970.",
        "policy_reload_failed" => {
            "1 if the policy could not be read again, so that the old one is still in force."
        }
        "written_bytes_total" => "Bytes written.",
        "failed" => "1 if a write or flush has failed and the volume is read-only.",
        "unchecked" => "1 while tags are recalculated, so that not all blocks are checked.",
        "storage_reads_total" => "Reads of the volume's devices.",
        "storage_read_bytes_total" => "Bytes read from the volume's devices.",
        "storage_writes_total" => "Writes to the volume's devices.",
        "storage_written_bytes_total" => "Bytes written to the volume's devices.",
        "storage_flushes_total" => "Flushes of the volume's devices.",
        "requests_total" => "Requests that reached the process, by operation.",
        "origin_retries_total" => "Attempts that failed and were repeated, by cause.",
        "opens_total" => "Opens, by how they were served.",
        _ => "",
    }
}
