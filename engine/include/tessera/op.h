// SPDX-License-Identifier: Apache-2.0
// An operation: what a runtime is asked to do, on which stream, for which ranks, after what and
// why.
//
// The idea: operations are data. The engine builds them, a runtime carries them out, and the same
// record is the trace row.
//
//   Op op{.stream = all_gather, .where = everyone, .cause = {.unit = "model.layers.3"}};
//   op.what = AllGather{world, View::shard(out, DType::bfloat16, shard), View::whole(out, ...)};
//   TESSERA_ASSIGN(EventId gathered, runtime.submit(op));
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/kernels.h"
#include "tessera/rank_set.h"
#include "tessera/trace.h"
#include "tessera/types.h"

namespace tessera {

/// The kinds of memory.
enum class Memory : std::uint8_t { device = 0, pinned_host = 1, nvme = 2 };
inline constexpr int memory_count = 3;

/// Elements [first + step * i, first + step * i + numel) of a buffer, cut at `end`, where i is the
/// rank's index in the op's communicator. With step 0 every rank sees the same range.
struct View {
  BufferId buffer = {};
  DType dtype = DType::float32;
  Numel numel{};
  Numel first{};
  Numel step{};
  Numel end{};

  /// Elements [0, numel) on every rank.
  static View whole(BufferId buffer, DType dtype, Numel numel) {
    return {buffer, dtype, numel, Numel{0}, Numel{0}, numel};
  }
  /// Elements [first, first + numel) on every rank.
  static View part(BufferId buffer, DType dtype, Numel first, Numel numel) {
    return {buffer, dtype, numel, first, Numel{0}, first + numel};
  }
  /// Rank i's slice of `group_size` equal slices of `numel` elements.
  static View shard(BufferId buffer, DType dtype, Numel numel, Index group_size) {
    return {buffer, dtype, numel, Numel{0}, numel, numel * group_size};
  }

  Numel begin_at(Index index) const { return std::min(first + step * index, end); }
  Numel end_at(Index index) const { return std::min(first + step * index + numel, end); }
};

/// Why an operation exists. Names point into the Model, which must outlive the runtime's use.
struct Cause {
  std::string_view unit = {};    // sharding unit
  std::string_view module = {};  // module path
  Phase phase = Phase::none;
  Reason reason = Reason::none;
  std::int32_t step = 0;
  std::int32_t micro_batch = 0;
};

enum class Reduction : std::uint8_t { sum, average, max };

/// output[i * input.numel ...] = input of index i. In place when input is the rank's slice of
/// output.
struct AllGather {
  CommunicatorId communicator = {};
  View input = {}, output = {};
};
/// output of index i = reduction over the group of factor * input[i * output.numel ...]
/// (a factor other than 1: ncclRedOpCreatePreMulSum).
struct ReduceScatter {
  CommunicatorId communicator = {};
  View input = {}, output = {};
  Reduction reduction = Reduction::average;
  float factor = 1;
};
struct AllReduce {
  CommunicatorId communicator = {};
  View input = {}, output = {};
  Reduction reduction = Reduction::average;
  float factor = 1;
};
/// As AllReduce, but only index `root` receives.
struct Reduce {
  CommunicatorId communicator = {};
  View input = {}, output = {};
  Reduction reduction = Reduction::average;
  Index root = 0;
};
/// `data` of index `root` to every member.
struct Broadcast {
  CommunicatorId communicator = {};
  View data = {};
  Index root = 0;
};

/// Part k of index i's output = part i of index k's input; both have as many equal parts as the
/// group has members, and are different buffers.
struct AllToAll {
  CommunicatorId communicator = {};
  View input = {}, output = {};
};

/// `count` blocks: block k copies from.numel elements from `from + k * from_pitch` to
/// `to + k * to_pitch`, casting when dtypes differ. Where `from` is cut short by its end, the rest
/// of the target block becomes zero: that is how padding is made. No source buffer: all zeros.
struct CopyBlocks {
  View from, to;
  std::int64_t count = 1;
  Numel from_pitch{};
  Numel to_pitch{};
};

/// Between which kinds of memory, which the buffers must agree with.
enum class CopyRoute : std::uint8_t {
  on_device,
  to_host,
  to_device,
  on_host,
  to_nvme,    // from host memory
  from_nvme,  // to host memory
  device_to_nvme,
  nvme_to_device
};

constexpr bool writes_files(CopyRoute route) {
  return route == CopyRoute::to_nvme || route == CopyRoute::device_to_nvme;
}
constexpr bool reads_files(CopyRoute route) {
  return route == CopyRoute::from_nvme || route == CopyRoute::nvme_to_device;
}
constexpr bool uses_files(CopyRoute route) { return reads_files(route) || writes_files(route); }

/// The route; none on NVMe, where it takes two.
std::optional<CopyRoute> route_between(Memory from, Memory to);

/// One fused copy of many pieces (torch's foreach_copy_, split_with_sizes_copy, chunk_cat).
struct Copy {
  CommunicatorId index_in = {};  // whose index the views' steps use; none: steps must be 0
  std::vector<CopyBlocks> pieces = {};
  CopyRoute route = CopyRoute::on_device;
};

/// Which operands of a matmul are cast to 8 bit right before it.
enum class CastOperands : std::uint8_t { first, both, none };

/// `count` matmuls of [m, k] with [k, n] in one launch.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t count = 1;
  bool fp8 = false;                          // operands have 8 bit
  CastOperands casts = CastOperands::first;  // with fp8
};

/// Attention of `batch` sequences; without heads its kernel is not known.
struct AttentionShape {
  std::int64_t batch = 0, sequence = 0;
  std::int64_t heads = 0, key_value_heads = 0, head_dim = 0;
  bool backward = false;
  std::int64_t window = 0;  // as in AttentionHeads
  bool chunked = false;
  bool causal = true;
};

/// A computation's cost for one rank. A simulator charges it, a real run ignores it.
struct ComputeCost {
  double matmul_flops = 0;
  double attention_flops = 0;
  double elementwise_bytes = 0;
  std::int32_t kernels = 1;
  DType dtype = DType::bfloat16;  // of the matmuls
  bool on_host = false;           // the CPU does it, in host memory
  /// The kernels that the FLOPs belong to, where they are known: all of them, or none.
  std::vector<MatmulShape> matmuls = {};
  AttentionShape attention = {};
};

/// The memory that a body may touch: the op's views on one rank, in the order of `reads` and
/// `writes`. They may be memory of a device, which only kernels can reach.
class BodyContext {
 public:
  virtual ~BodyContext() = default;
  virtual Rank rank() const = 0;
  virtual std::span<const std::byte> read(std::size_t i) const = 0;
  virtual std::span<std::byte> write(std::size_t i) const = 0;
  /// Those that belong to the memory of the views: host_kernels(), unless a backend has its own.
  virtual Kernels& kernels() const;

  template <class T>
  std::span<const T> read_as(std::size_t i) const {
    const auto bytes = read(i);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> write_as(std::size_t i) const {
    const auto bytes = write(i);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Lets a backend recognise what a body does: bodies with equal `of` and `part` submit the same
/// work to the device whenever their views are the same memory, and do nothing on the host.
struct Repeated {
  std::shared_ptr<const void> of;  // none: the body runs every time
  std::int32_t part = 0;
};

/// Work of the host program or of the engine: `body` runs once per rank where numbers are real.
struct Compute {
  ComputeCost cost = {};
  std::vector<View> reads = {}, writes = {};
  std::function<void(const BodyContext&)> body = {};
  /// Places in `writes` that are zero when the body starts: memory comes as it was left.
  std::vector<std::size_t> zeroed = {};
  CommunicatorId index_in = {};  // as in Copy
  /// The body itself looks at elements, without kernels: where memory is a device's, it gets copies
  /// in the host's. Slow.
  bool on_numbers = false;
  Repeated repeated = {};
};

/// The op's stream waits for everything submitted to `stream` so far; with no stream only for
/// `after`. Takes no time of its own.
struct Wait {
  StreamId stream = {};
};

/// A note of the engine for people, notations and tests: it changes nothing.
///
/// The kind says what has happened, as a sentence in which {} stands for `number`. Kinds are
/// constants: those below belong to all schemes, others to the scheme that makes them
/// (engine/schemes/*/marks.h), and a notation reads those that it knows.
struct Mark {
  using Kind = std::string_view;

  Kind kind;
  std::int32_t number = 0;
};

namespace marks {

inline constexpr Mark::Kind phase = "begins";                        // the cause's phase
inline constexpr Mark::Kind sharded = "parameters are sharded";      // the unit's, again
inline constexpr Mark::Kind unsharded = "parameters are unsharded";  // and usable
inline constexpr Mark::Kind gradients_sharded = "gradients are sharded";
inline constexpr Mark::Kind gradient_ready = "gradient ready";  // the cause names whose

}  // namespace marks

struct Op {
  StreamId stream = {};
  RankSet where = {};
  std::span<const EventId> after = {};  // events of other streams to wait for
  Cause cause = {};
  std::variant<AllGather, ReduceScatter, AllReduce, Reduce, Broadcast, AllToAll, Copy, Compute,
               Wait, Mark>
      what;
};

OpKind kind_of(const Op& op);
/// The communicator of a collective; none for the others.
CommunicatorId communicator_of(const Op& op);
/// Collectives: the size nccl-tests report (AG/RS: the gathered buffer). Copies: bytes read.
/// Compute: elementwise bytes.
Bytes bytes_of(const Op& op);

}  // namespace tessera
