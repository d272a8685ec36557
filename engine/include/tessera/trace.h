// SPDX-License-Identifier: Apache-2.0
// The records of a trace, the same for simulated and real runs: the vocabulary between runtimes,
// storage and inspector.
//
// The idea: a logical operation is one `TraceOp`, shared by all ranks; what differs per rank are
// times, sent as columns. A `TraceSink` receives both in submission order. The `storage` library
// implements it with SQLite; tests implement it with vectors.
//
//   sink.begin(run);
//   sink.op(op);                                   // once per logical operation
//   sink.spans({.op = op.id, .ranks = ranks, ...}) // one column entry per recorded rank
//   sink.rank_steps(step);                         // once per step, for every rank
//   Status status = sink.finish();
//
// Records with texts have one definition for both directions: a sink is told views (`TraceOp` is
// `OpRecord<std::string_view>`), a reader gives texts of its own (`OpRecord<std::string>`). What
// becomes of each field in a file is listed once, in storage/records.h.
//
// All `string_view`s and spans passed to a sink are only valid during the call. A sink is called
// from one thread, but may do what it was told to `defer` in a thread of its own. Times are ns
// since the run's start; sizes are bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory_class.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

/// The kinds of operations. Values are part of the trace format: append, never renumber.
enum class OpKind : std::uint8_t {
  all_gather = 0,
  reduce_scatter = 1,
  all_reduce = 2,
  reduce = 3,
  broadcast = 4,
  copy = 5,
  compute = 6,
  wait = 7,  // a stream waits for another; takes no time of its own, never has spans
  mark = 8,  // a note of the engine (state change, phase); takes no time, never has spans
  all_to_all = 9,
};

inline constexpr OpKind op_kind_last = OpKind::all_to_all;

constexpr bool is_collective(OpKind kind) {
  return kind <= OpKind::broadcast || kind == OpKind::all_to_all;
}

enum class Phase : std::uint8_t { none = 0, init = 1, forward = 2, backward = 3, optimizer = 4 };

/// Why an operation was issued now.
enum class Reason : std::uint8_t {
  none = 0,
  needed = 1,             // its result is used next
  forward_prefetch = 2,   // gathered ahead of its use in forward
  backward_prefetch = 3,  // gathered ahead of its use in backward
  copy_in = 4,            // packs shards or gradients into a communication buffer
  copy_out = 5,           // unpacks a communication buffer
  reduce_gradients = 6,
  accumulate = 7,  // adds to gradients of earlier micro-batches
  recompute = 8,   // activation checkpointing runs forward again
  step = 9,        // the optimizer
  free_memory = 10,
  order = 11,    // keeps one stream behind another
  divide = 12,   // gradients by the number of ranks, in one or two steps
  offload = 13,  // between device and host
  limit = 14,    // the host waits so that it does not run too far ahead
  summon = 15,   // summon_full_params
  clip = 16,     // clip_grad_norm
  unscale = 17,  // GradScaler
};

inline constexpr Reason reason_last = Reason::unscale;

std::string_view name_of(OpKind kind);
std::string_view name_of(Phase phase);
std::string_view name_of(Reason reason);

/// The use of a stream, which decides its lane in the inspector and what counts as exposed.
enum class StreamRole : std::uint8_t { compute = 0, communication = 1, copy = 2, host = 3 };

/// The run as a whole. Everything a reader needs to turn times into tokens/s and MFU.
struct TraceRun {
  std::string name = {};     // for titles: "Llama-3-8B on 64 x H100"
  std::string model = {};    // model name
  std::string scheme = {};   // "fully_shard"
  std::string cluster = {};  // cluster name, or the host's name for a real run
  std::string backend = {};  // "simulator", "nccl", "mpi"
  std::string options = {};  // JSON object: every option that the run depends on
  /// JSON object: texts that it was made from, "model", "cluster"; or empty.
  std::string sources = {};
  std::string version = {};  // writer version and commit
  std::uint64_t seed = 0;
  std::int32_t ranks = 1;
  std::int32_t ranks_per_node = 1;
  std::int64_t parameters = 0;            // unique parameters of the model, elements
  std::int64_t tokens_per_step = 0;       // over all ranks and micro-batches; 0 if unknown
  double model_flops_per_step = 0;        // over all ranks, recomputation not counted; 0 if unknown
  double peak_flops_per_rank = 0;         // FLOP/s that MFU refers to; 0 if unknown
  std::string peak_name = {};             // "H100 SXM bf16 dense, 989 TFLOP/s"
  Bytes memory_per_rank{};                // device capacity; 0 if unknown
  std::vector<Rank> recorded_ranks = {};  // ranks with spans and memory samples, ascending
  // Operations, spans and samples are kept of these steps only: the first, and one past the last.
  std::int32_t recorded_from = 0, recorded_to = std::numeric_limits<std::int32_t>::max();
  bool records_memory = true;  // false: no memory samples
};

template <class Text>
struct StreamRecord {
  std::int32_t id = 0;
  Text name;
  StreamRole role = StreamRole::compute;
};
using TraceStream = StreamRecord<std::string_view>;

/// All groups of one mesh axis.
template <class Text>
struct CommunicatorRecord {
  std::int32_t id = 0;
  Text name;
  std::int32_t group_size = 1;
  std::int32_t group_count = 1;
};
using TraceCommunicator = CommunicatorRecord<std::string_view>;

/// One sharding unit: parameters gathered, freed and reduced together.
template <class Text>
struct UnitRecord {
  std::int32_t id = 0;
  Text name;
  std::int32_t parameters = 0;  // number of parameter tensors
  Numel numel{};                // unsharded elements without padding
  Numel padding{};              // elements added so that shards are equal
};
using TraceUnit = UnitRecord<std::string_view>;

/// One logical operation of one step; ranks share it.
template <class Text>
struct OpRecord {
  std::int32_t id = 0;  // ascending; also the id of the event recorded after it
  OpKind kind = OpKind::compute;
  std::int32_t stream = 0;
  std::int32_t communicator = -1;  // -1: not a collective
  std::int32_t step = 0;
  std::int32_t micro_batch = 0;
  Phase phase = Phase::none;
  Reason reason = Reason::none;
  Text unit;      // sharding unit, "" if none
  Text module;    // module path, "" if none
  Text label;     // short text for a bar: "all_gather model.layers.3"
  Bytes bytes{};  // collectives: size as nccl-tests define it (AG/RS: the full buffer);
                  // copies: bytes copied; compute: bytes moved, 0 if unknown
  DType dtype = DType::float32;
  double flops = 0;  // compute only
  Text algorithm;    // "ring", ...; "" if unknown
  // Ids of the ops it waited for besides its own stream. A reader leaves it empty and tells them
  // for single ops.
  std::span<const std::int32_t> after;
};
using TraceOp = OpRecord<std::string_view>;

/// Times of one op on the recorded ranks, parallel columns.
struct SpanBatch {
  std::int32_t op = 0;
  std::span<const Rank> ranks;
  std::span<const Time> begin;  // the rank's stream starts it
  std::span<const Time> ready;  // collectives: the last member arrived; otherwise == begin
  std::span<const Time> end;
};

/// The time that a collective really ran on one rank's device, as its communication library says:
/// from the first start of its kernels to the last end. An op's span has what is around them, too.
struct TraceKernel {
  Rank rank = 0;
  std::int32_t op = 0;
  Time time = 0;
};

/// A logical allocation, shared by the ranks that made it.
template <class Text>
struct BufferRecord {
  std::int32_t id = 0;
  Text name;  // "model.layers.3.ag_out"
  Text unit;
  MemoryClass memory_class = MemoryClass::temporary;
  Bytes bytes{};
};
using TraceBuffer = BufferRecord<std::string_view>;

/// A change of one rank's memory. Samples of a rank arrive in ascending time.
struct MemorySample {
  Rank rank = 0;
  Time time = 0;
  std::int32_t buffer = 0;
  MemoryClass memory_class = MemoryClass::temporary;
  Bytes delta{};      // > 0 allocation, < 0 release
  Bytes allocated{};  // the device allocator's counter after it: `is_on_device` classes only
  Bytes reserved{};   // bytes held from the device after it, >= allocated
};

/// Memory by class at the moment of a step's highest `allocated`, for ranks that behave alike.
struct PeakMemory {
  std::int32_t step = 0;
  Rank first_rank = 0;  // [first_rank, end_rank)
  Rank end_rank = 0;
  Bytes allocated{};
  Bytes reserved{};
  std::array<Bytes, memory_class_count> by_class{};  // reserved_unused included: sums to reserved
};

/// Steps of every rank, as columns: of one step indexed by rank, of a reader's [step * ranks +
/// rank].
template <template <class> class Column>
struct RankStepColumns {
  std::int32_t step = 0;  // the first one
  Column<Time> begin;
  Column<Time> end;
  Column<Time> compute;        // the compute stream works
  Column<Time> communication;  // sum of the collectives' transfer times
  Column<Time> exposed;        // a collective runs or waits while compute does nothing
  Column<Time> blocking;       // the compute stream stands still waiting for a collective
  Column<Time> wait;           // inside collectives, waiting for the last member
  Column<Bytes> peak_allocated;
  Column<Bytes> peak_reserved;
};
template <class T>
using ColumnView = std::span<const T>;
/// One step.
using RankStepBatch = RankStepColumns<ColumnView>;

enum class DiagnosticSeverity : std::uint8_t { info = 0, warning = 1, error = 2, data_loss = 3 };

/// A problem of the run: data to show, not a reason to stop reading.
template <class Text>
struct DiagnosticRecord {
  using Severity = DiagnosticSeverity;
  Severity severity = Severity::info;
  Text code;             // "out_of_memory", "hazard", ...
  Rank rank = -1;        // first rank concerned, -1: all
  std::int32_t op = -1;  // op concerned, -1: none
  Time time = 0;
  Text message;  // one sentence
};
using TraceDiagnostic = DiagnosticRecord<std::string_view>;

/// A piece of a device's memory.
struct MemoryBlock {
  Bytes address{};           // from the start of the allocator's range
  Bytes bytes{};             // > 0
  Bytes segment{};           // the address of what it was cut from: blocks of two never join
  std::int32_t stream = -1;  // whose requests it serves, -1: any
  std::int32_t buffer = -1;  // its row, -1: it is free
};

/// A request for which a device's memory was too small, at that moment; the diagnostic
/// "out_of_memory" of the same rank says so in a sentence.
struct TraceMemoryShortage {
  Rank rank = 0;
  Time time = 0;
  std::int32_t buffer = 0;  // what was asked for
  Bytes request{};
  Bytes capacity{};      // what may be taken from the device
  Bytes free{};          // of it, all that nobody holds
  Bytes largest_free{};  // the largest block of that which the request could have had
  // By address, and what was not taken from the device yet as the last: they sum to the capacity.
  // A reader has them beside it.
  std::span<const MemoryBlock> blocks;
};

class TraceSink {
 public:
  virtual ~TraceSink() = default;

  /// First call, once.
  virtual void begin(const TraceRun& run) = 0;
  virtual void stream(const TraceStream& stream) = 0;
  virtual void communicator(const TraceCommunicator& communicator) = 0;
  virtual void unit(const TraceUnit& unit) = 0;
  virtual void op(const TraceOp& op) = 0;
  virtual void spans(const SpanBatch& spans) = 0;
  /// Called at most once per rank and op, in any order of ops. Few runs have such times.
  virtual void kernel(const TraceKernel&) {}
  virtual void buffer(const TraceBuffer& buffer) = 0;
  virtual void memory(std::span<const MemorySample> samples) = 0;
  virtual void peak_memory(const PeakMemory& peak) = 0;
  virtual void rank_steps(const RankStepBatch& steps) = 0;
  virtual void diagnostic(const TraceDiagnostic& diagnostic) = 0;
  /// Few runs have one. The row of its buffer comes before it.
  virtual void memory_shortage(const TraceMemoryShortage&) {}

  /// Postpones calls that belong at this place but take work to compute: `work` makes them, on the
  /// sink that it is given. It runs once, before any later call has an effect: now, or in a thread
  /// of the sink, which waits for no caller; or never, if the trace is abandoned. So it must own
  /// its data, `size` bytes, which the sink counts as queued until then.
  virtual void defer(Bytes size, std::function<void(TraceSink&)> work) {
    static_cast<void>(size);
    work(*this);
  }

  /// Last call. Fails: io_error, if anything since `begin` could not be kept.
  virtual Status finish() = 0;
};

}  // namespace tessera
