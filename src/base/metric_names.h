// Made by scripts/semconv.py of semconv/registry: change that, and write this anew.
#ifndef LITHIFY_BASE_METRIC_NAMES_H_
#define LITHIFY_BASE_METRIC_NAMES_H_

#include <span>
#include <string_view>

namespace lithify::metric {

enum class Kind { kCounter, kUpDownCounter, kGauge, kHistogram };

struct Instrument {
  std::string_view name;
  std::string_view unit;  // UCUM.
  std::string_view brief;
  Kind kind;
  bool observable;  // Absolute values, which replace those before.
  bool zero;        // Told from the start, with zero.
  std::span<const std::string_view> attributes;
  std::span<const double> buckets;  // Upper bounds, of histograms.
};

// Maintenance jobs that ended.
inline constexpr std::string_view kLithifyMaintenanceJobsAttributes[] = {"lithify.procedure",
                                                                         "lithify.outcome"};
inline constexpr Instrument kLithifyMaintenanceJobs = {
    .name = "lithify.maintenance.jobs",
    .unit = "{job}",
    .brief = "Maintenance jobs that ended.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = kLithifyMaintenanceJobsAttributes,
    .buckets = {}};
// Jobs left to another holder of the lease.
inline constexpr Instrument kLithifyMaintenanceLeaseSkipped = {
    .name = "lithify.maintenance.lease.skipped",
    .unit = "{job}",
    .brief = "Jobs left to another holder of the lease.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = {},
    .buckets = {}};
// 1 while the maintenance log cannot be written, else 0.
inline constexpr Instrument kLithifyMaintenanceLogMissing = {
    .name = "lithify.maintenance.log.missing",
    .unit = "1",
    .brief = "1 while the maintenance log cannot be written, else 0.",
    .kind = Kind::kGauge,
    .observable = false,
    .zero = false,
    .attributes = {},
    .buckets = {}};
// What the catalog refused to the principal.
inline constexpr std::string_view kLithifyMaintenanceRefusedAttributes[] = {"lithify.reason"};
inline constexpr Instrument kLithifyMaintenanceRefused = {
    .name = "lithify.maintenance.refused",
    .unit = "{refusal}",
    .brief = "What the catalog refused to the principal.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = kLithifyMaintenanceRefusedAttributes,
    .buckets = {}};
// Bytes that maintenance jobs rewrote.
inline constexpr Instrument kLithifyMaintenanceRewritten = {
    .name = "lithify.maintenance.rewritten",
    .unit = "By",
    .brief = "Bytes that maintenance jobs rewrote.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = {},
    .buckets = {}};
// Jobs that found nothing to do.
inline constexpr Instrument kLithifyMaintenanceSkipped = {.name = "lithify.maintenance.skipped",
                                                          .unit = "{job}",
                                                          .brief = "Jobs that found nothing to do.",
                                                          .kind = Kind::kCounter,
                                                          .observable = false,
                                                          .zero = false,
                                                          .attributes = {},
                                                          .buckets = {}};
// Ticks that could not do their work.
inline constexpr std::string_view kLithifyMaintenanceTickErrorsAttributes[] = {"error.type"};
inline constexpr Instrument kLithifyMaintenanceTickErrors = {
    .name = "lithify.maintenance.tick.errors",
    .unit = "{tick}",
    .brief = "Ticks that could not do their work.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = kLithifyMaintenanceTickErrorsAttributes,
    .buckets = {}};
// Ticks of the scheduler.
inline constexpr Instrument kLithifyMaintenanceTicks = {.name = "lithify.maintenance.ticks",
                                                        .unit = "{tick}",
                                                        .brief = "Ticks of the scheduler.",
                                                        .kind = Kind::kCounter,
                                                        .observable = false,
                                                        .zero = false,
                                                        .attributes = {},
                                                        .buckets = {}};
// Live Parquet files by what their size says. Absolute, of the last sweep: what the alert on small
// files is computed from.
inline constexpr std::string_view kLithifyStorageParquetFilesAttributes[] = {
    "ourios.tenant", "lithify.file.condition"};
inline constexpr Instrument kLithifyStorageParquetFiles = {
    .name = "lithify.storage.parquet.files",
    .unit = "{file}",
    .brief = "Live Parquet files by what their size says.",
    .kind = Kind::kUpDownCounter,
    .observable = true,
    .zero = false,
    .attributes = kLithifyStorageParquetFilesAttributes,
    .buckets = {}};
// Data files of a table.
inline constexpr std::string_view kLithifyTableDataFilesAttributes[] = {"lithify.table"};
inline constexpr Instrument kLithifyTableDataFiles = {
    .name = "lithify.table.data_files",
    .unit = "{file}",
    .brief = "Data files of a table.",
    .kind = Kind::kGauge,
    .observable = false,
    .zero = false,
    .attributes = kLithifyTableDataFilesAttributes,
    .buckets = {}};
// Delete files of a table.
inline constexpr std::string_view kLithifyTableDeleteFilesAttributes[] = {"lithify.table"};
inline constexpr Instrument kLithifyTableDeleteFiles = {
    .name = "lithify.table.delete_files",
    .unit = "{file}",
    .brief = "Delete files of a table.",
    .kind = Kind::kGauge,
    .observable = false,
    .zero = false,
    .attributes = kLithifyTableDeleteFilesAttributes,
    .buckets = {}};
// Average size of the data files of a table.
inline constexpr std::string_view kLithifyTableFileSizeAttributes[] = {"lithify.table"};
inline constexpr Instrument kLithifyTableFileSize = {
    .name = "lithify.table.file.size",
    .unit = "By",
    .brief = "Average size of the data files of a table.",
    .kind = Kind::kGauge,
    .observable = false,
    .zero = false,
    .attributes = kLithifyTableFileSizeAttributes,
    .buckets = {}};
// Bytes that a rewrite of a table would take in.
inline constexpr std::string_view kLithifyTableRewriteDebtAttributes[] = {"lithify.table"};
inline constexpr Instrument kLithifyTableRewriteDebt = {
    .name = "lithify.table.rewrite_debt",
    .unit = "By",
    .brief = "Bytes that a rewrite of a table would take in.",
    .kind = Kind::kGauge,
    .observable = false,
    .zero = false,
    .attributes = kLithifyTableRewriteDebtAttributes,
    .buckets = {}};
// Data files of a table that are too small.
inline constexpr std::string_view kLithifyTableSmallFilesAttributes[] = {"lithify.table"};
inline constexpr Instrument kLithifyTableSmallFiles = {
    .name = "lithify.table.small_files",
    .unit = "{file}",
    .brief = "Data files of a table that are too small.",
    .kind = Kind::kGauge,
    .observable = false,
    .zero = false,
    .attributes = kLithifyTableSmallFilesAttributes,
    .buckets = {}};
// Data points, spans and log records that were given up.
inline constexpr std::string_view kLithifyTelemetryDroppedAttributes[] = {
    "lithify.telemetry.signal", "lithify.reason"};
inline constexpr Instrument kLithifyTelemetryDropped = {
    .name = "lithify.telemetry.dropped",
    .unit = "{item}",
    .brief = "Data points, spans and log records that were given up.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = kLithifyTelemetryDroppedAttributes,
    .buckets = {}};
// Sealed partitions that are still to be compacted. Absolute, of the last sweep that saw the tree.
// A tenant that is gone is not reported any more; a sweep that fails as a whole keeps the last
// values.
inline constexpr std::string_view kOuriosCompactionBacklogAttributes[] = {"ourios.tenant"};
inline constexpr Instrument kOuriosCompactionBacklog = {
    .name = "ourios.compaction.backlog",
    .unit = "{partition}",
    .brief = "Sealed partitions that are still to be compacted.",
    .kind = Kind::kUpDownCounter,
    .observable = true,
    .zero = false,
    .attributes = kOuriosCompactionBacklogAttributes,
    .buckets = {}};
// How long a sweep took.
inline constexpr double kOuriosCompactionDurationBuckets[] = {0.1, 0.5, 1,   5,    10,   30,
                                                              60,  300, 900, 3600, 14400};
inline constexpr std::string_view kOuriosCompactionDurationAttributes[] = {
    "ourios.compaction.result"};
inline constexpr Instrument kOuriosCompactionDuration = {
    .name = "ourios.compaction.duration",
    .unit = "s",
    .brief = "How long a sweep took.",
    .kind = Kind::kHistogram,
    .observable = false,
    .zero = false,
    .attributes = kOuriosCompactionDurationAttributes,
    .buckets = kOuriosCompactionDurationBuckets};
// Input files merged away.
inline constexpr Instrument kOuriosCompactionFiles = {.name = "ourios.compaction.files",
                                                      .unit = "{file}",
                                                      .brief = "Input files merged away.",
                                                      .kind = Kind::kCounter,
                                                      .observable = false,
                                                      .zero = true,
                                                      .attributes = {},
                                                      .buckets = {}};
// Bytes of inputs and outputs of committed rewrites.
inline constexpr std::string_view kOuriosCompactionIoAttributes[] = {"ourios.io.direction"};
inline constexpr Instrument kOuriosCompactionIo = {
    .name = "ourios.compaction.io",
    .unit = "By",
    .brief = "Bytes of inputs and outputs of committed rewrites.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = kOuriosCompactionIoAttributes,
    .buckets = {}};
// Inputs that could not be removed after their grace.
inline constexpr Instrument kOuriosCompactionOrphanFiles = {
    .name = "ourios.compaction.orphan.files",
    .unit = "{file}",
    .brief = "Inputs that could not be removed after their grace.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = true,
    .attributes = {},
    .buckets = {}};
// Partitions consolidated.
inline constexpr Instrument kOuriosCompactionPartitions = {.name = "ourios.compaction.partitions",
                                                           .unit = "{partition}",
                                                           .brief = "Partitions consolidated.",
                                                           .kind = Kind::kCounter,
                                                           .observable = false,
                                                           .zero = true,
                                                           .attributes = {},
                                                           .buckets = {}};
// Rows rewritten.
inline constexpr Instrument kOuriosCompactionRows = {.name = "ourios.compaction.rows",
                                                     .unit = "{row}",
                                                     .brief = "Rows rewritten.",
                                                     .kind = Kind::kCounter,
                                                     .observable = false,
                                                     .zero = true,
                                                     .attributes = {},
                                                     .buckets = {}};
// Sweeps that ended.
inline constexpr std::string_view kOuriosCompactionSweepsAttributes[] = {
    "ourios.compaction.result"};
inline constexpr Instrument kOuriosCompactionSweeps = {
    .name = "ourios.compaction.sweeps",
    .unit = "{sweep}",
    .brief = "Sweeps that ended.",
    .kind = Kind::kCounter,
    .observable = false,
    .zero = false,
    .attributes = kOuriosCompactionSweepsAttributes,
    .buckets = {}};
// Sizes of live Parquet files. Every live file of every partition, once per sweep, as the sweep
// leaves it. Files of 0 bytes are left out.
inline constexpr double kOuriosStorageParquetFileSizeBuckets[] = {
    1048576,   4194304,   16777216,  33554432,   67108864,
    134217728, 268435456, 536870912, 1073741824, 2147483648};
inline constexpr std::string_view kOuriosStorageParquetFileSizeAttributes[] = {"ourios.tenant"};
inline constexpr Instrument kOuriosStorageParquetFileSize = {
    .name = "ourios.storage.parquet.file.size",
    .unit = "By",
    .brief = "Sizes of live Parquet files.",
    .kind = Kind::kHistogram,
    .observable = false,
    .zero = false,
    .attributes = kOuriosStorageParquetFileSizeAttributes,
    .buckets = kOuriosStorageParquetFileSizeBuckets};

inline constexpr const Instrument* kAll[] = {
    &kLithifyMaintenanceJobs,       &kLithifyMaintenanceLeaseSkipped,
    &kLithifyMaintenanceLogMissing, &kLithifyMaintenanceRefused,
    &kLithifyMaintenanceRewritten,  &kLithifyMaintenanceSkipped,
    &kLithifyMaintenanceTickErrors, &kLithifyMaintenanceTicks,
    &kLithifyStorageParquetFiles,   &kLithifyTableDataFiles,
    &kLithifyTableDeleteFiles,      &kLithifyTableFileSize,
    &kLithifyTableRewriteDebt,      &kLithifyTableSmallFiles,
    &kLithifyTelemetryDropped,      &kOuriosCompactionBacklog,
    &kOuriosCompactionDuration,     &kOuriosCompactionFiles,
    &kOuriosCompactionIo,           &kOuriosCompactionOrphanFiles,
    &kOuriosCompactionPartitions,   &kOuriosCompactionRows,
    &kOuriosCompactionSweeps,       &kOuriosStorageParquetFileSize,
};

}  // namespace lithify::metric

namespace lithify::attribute {

// The code of an error, as docs/CLI.md lists them.
inline constexpr const char* kErrorType = "error.type";
// What size says of a live Parquet file.
inline constexpr const char* kLithifyFileCondition = "lithify.file.condition";
inline constexpr const char* kLithifyFileConditionSized = "sized";
inline constexpr const char* kLithifyFileConditionSmall = "small";
inline constexpr const char* kLithifyFileConditionOpen = "open";
inline constexpr const char* kLithifyFileConditionIrreducible = "irreducible";
// How a job ended, in the words of the maintenance log.
inline constexpr const char* kLithifyOutcome = "lithify.outcome";
// The procedure that a job runs.
inline constexpr const char* kLithifyProcedure = "lithify.procedure";
// Why something was refused or dropped, in one word.
inline constexpr const char* kLithifyReason = "lithify.reason";
// An Iceberg table, with its catalog before it.
inline constexpr const char* kLithifyTable = "lithify.table";
// A kind of telemetry.
inline constexpr const char* kLithifyTelemetrySignal = "lithify.telemetry.signal";
inline constexpr const char* kLithifyTelemetrySignalMetrics = "metrics";
inline constexpr const char* kLithifyTelemetrySignalTraces = "traces";
inline constexpr const char* kLithifyTelemetrySignalLogs = "logs";
// What asked for a job.
inline constexpr const char* kLithifyTrigger = "lithify.trigger";
inline constexpr const char* kLithifyTriggerManual = "manual";
inline constexpr const char* kLithifyTriggerScheduled = "scheduled";
// How a sweep ended.
inline constexpr const char* kOuriosCompactionResult = "ourios.compaction.result";
inline constexpr const char* kOuriosCompactionResultCommitted = "committed";
inline constexpr const char* kOuriosCompactionResultNoop = "noop";
inline constexpr const char* kOuriosCompactionResultError = "error";
// Whether bytes were read or written.
inline constexpr const char* kOuriosIoDirection = "ourios.io.direction";
inline constexpr const char* kOuriosIoDirectionRead = "read";
inline constexpr const char* kOuriosIoDirectionWrite = "write";
// The tenant of a partition, decoded; empty where the layout has no tenants.
inline constexpr const char* kOuriosTenant = "ourios.tenant";

}  // namespace lithify::attribute

namespace lithify::event {

// A sweep could not be made, or a partition of it failed.
inline constexpr const char* kOuriosCompactionSweepError = "ourios.compaction.sweep.error";
// A program that could compact was configured not to.
inline constexpr const char* kOuriosServerCompactionDisabled = "ourios.server.compaction.disabled";

}  // namespace lithify::event

#endif  // LITHIFY_BASE_METRIC_NAMES_H_
