// SPDX-License-Identifier: Apache-2.0
// Partitions of parameters on NVMe: buffers in host memory or on the device, what is read into them
// when, and who gives them back.
//
// The idea: one stream moves files, so what was written is read after it, without a wait. A read is
// an operation of its own and a gather waits for its own reads only. compatible does what DeepSpeed
// does instead (partitioned_param_swapper.py): the host waits for all reads, and a buffer stays
// taken for as long as the parameter is gathered.
#pragma once

#include <span>
#include <vector>

#include "engine/schemes/zero3/parameters/on_demand_parameter.h"
#include "engine/schemes/zero3/parameters/operations.h"
#include "engine/schemes/zero3/parameters/zero3_facts.h"

namespace tessera {

class ParameterSwapper {
 public:
  /// Both must outlive it.
  ParameterSwapper(Operations& operations, const Zero3Facts& facts)
      : operations_(operations), facts_(facts), options_(facts.options) {}

  /// Makes stream and buffers if one of `parameters` lives on NVMe.
  /// Fails: invalid_argument, if a partition is larger than a buffer.
  Status setup(const OnDemandParameters& parameters);
  bool exists() const { return !buffers_.empty(); }
  StreamId stream() const { return stream_; }
  std::int32_t free_buffers() const;
  /// Its values are in a buffer now, or will be, without a further read.
  bool has(const OnDemandParameter& p) const { return find(p.id) != nullptr; }
  /// It is on NVMe, and no read of it is under way or done.
  bool unread(const OnDemandParameter& p) const { return p.home == Memory::nvme && !has(p); }

  /// strict: reads in this order, each by itself, what no buffer holds, while buffers are free; one
  /// is kept for what is needed at once.
  Status read_ahead(std::span<OnDemandParameter* const> next);
  /// Copies the partition to `to` on `stream`, reading it before if that did not happen yet.
  Result<EventId> bring(OnDemandParameter& p, const View& to, CommunicatorId index_in,
                        StreamId stream, const Cause& why);
  /// From `values` in memory `where`, after whatever `source` did so far.
  Result<EventId> write(const OnDemandParameter& p, const View& values, Memory where,
                        StreamId source, const Cause& why);

  // compatible: what DeepSpeed's calls of these names do.
  Status swap_in(std::span<OnDemandParameter* const> parameters, bool async);
  Status synchronize_reads();
  Status ensure_availability(std::span<OnDemandParameter* const> parameters);
  /// Nothing, of what is not on NVMe.
  Status release_buffer(const OnDemandParameter& p);

 private:
  struct Buffer {
    BufferId memory;
    ParameterId holds;  // none: free
    EventId read;       // of `holds`
    EventId copied;     // to the device: what is read next follows it
    bool waited_for = false;
    std::int64_t turn = 0;  // of the read
  };

  Memory memory() const { return options_.aio.use_gds ? Memory::device : Memory::pinned_host; }
  const Buffer* find(ParameterId id) const;
  Buffer* find(ParameterId id);
  Buffer* free_buffer();
  Buffer& youngest();
  Status read(Buffer& buffer, const OnDemandParameter& p);
  View view(const Buffer& buffer, const OnDemandParameter& p) const;
  Numel aligned(const OnDemandParameter& p) const;
  Status note(const OnDemandParameter* p, Mark mark);

  Operations& operations_;
  const Zero3Facts& facts_;
  const Zero3Options& options_;
  StreamId stream_;
  std::vector<Buffer> buffers_;
  std::int64_t turns_ = 0;
};

}  // namespace tessera
