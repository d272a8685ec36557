// SPDX-License-Identifier: Apache-2.0
// The backend of one rank on a GPU. CUDA and NCCL are only called through their tables.
//
// The idea: an operation is enqueued on its stream at once, behind waits for its events, so that
// streams alone order the device's work. Any error ends the run of all ranks.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/backends/cuda/collectives.h"
#include "engine/backends/cuda/cuda_kernels.h"
#include "engine/backends/cuda/cuda_module.h"
#include "engine/backends/cuda/device_memory.h"
#include "engine/backends/cuda/event_owners.h"
#include "engine/backends/cuda/file_copies.h"
#include "engine/backends/cuda/file_service.h"
#include "engine/backends/cuda/gpu_direct_file.h"
#include "engine/backends/cuda/graphs.h"
#include "engine/backends/cuda/lane.h"
#include "engine/backends/cuda/mailbox.h"
#include "engine/backends/cuda/op_times.h"
#include "engine/backends/cuda/staging.h"
#include "engine/backends/cuda/windows.h"
#include "engine/swap/swap_store.h"
#include "engine/values/id_table.h"
#include "tessera/cuda_runtime.h"

namespace tessera {

class CudaBackend final : public ProcessRuntime {
 public:
  CudaBackend(const CudaModule& module, std::unique_ptr<CudaPeers> peers,
              const CudaOptions& options);
  ~CudaBackend() override;
  Status setup();

  Status poll() override;
  Status finish() override;
  void give_up(const Status& why) override;
  std::string device() const override { return device_name_; }
  GraphCounts graphs() const override { return graphs_.counts(); }

  Processor processor() const override {
    return options_.hopper_attention ? Processor::hopper : Processor::gpu;
  }
  Result<PerRank<float>> read(const View& scalar) override;
  PerRank<Time> now() const override {
    return PerRank<Time>(options_.clock ? options_.clock() : 0);
  }

 private:
  struct Place {
    Memory memory = Memory::device;
    Bytes offset{};
  };

  Status stream_created(StreamId, const Stream&) override;
  Status communicator_created(CommunicatorId, const Communicator&) override;
  Status buffer_requested(BufferId, const Allocation&) override;
  Status buffer_placed(BufferId, const Allocation&, const RankSet&, const Placement&) override;
  void buffer_released(BufferId, EventId, const RankSet&) override;
  Status execute(const Op& op, EventId event) override;
  Status await_event(EventId event) override;

  /// Whether the run goes on; then the device is current in the calling thread.
  Status usable();
  /// Ends the run for all ranks if `status` is an error, which it returns.
  Status noted(Status status);

  // Buffers (cuda_buffers.cpp).
  Status open_memory(bool as_window);
  Status place(BufferId id, const Allocation& request, const Placement& placement);
  Status grow_pinned(Bytes bytes);
  Status make_file(BufferId id, const Allocation& request);
  std::unique_ptr<BlockIo> make_io();

  Status enqueue(const Op& op, EventId event);
  Status settle_if_new(const Op& op);
  int settle();  // an error code of CUDA
  Status make_room(Lane& lane);
  Status launch(const Op& op, Lane& lane);
  Status order(Lane& lane, const Op& op);
  Status prepare_collective(const Op& op, Lane& lane);  // cuda_collectives.cpp
  Status cover(const Op& op);
  Status read_all(const View& scalar, std::vector<float>& all);
  Status gather_answers(std::size_t width);
  Result<Bytes> least_of_all(Bytes own);
  Status finish_all();
  Status until(const std::function<Result<bool>()>& done);
  Status drain(Lane& lane);
  Status drain_all();
  std::string oldest_waiting();

  // The trace (cuda_trace.cpp).
  Status start_trace(int device);
  Status enter_step(std::int32_t step);
  Status submit_to_trace(const Op& op, EventId event, Lane& lane);
  Status advance_trace();
  void take_kernel_times();
  Status await_kernel_times();
  Status write_trace();
  Status end_trace();

  // Carrying out one operation (cuda_ops.cpp).
  /// Pieces of one copy that one kernel casts; on the device also those that keep their type.
  struct Casts {
    bool equal_types = false;
    std::vector<BlockCast> blocks = {};

    bool add(const BlockCast& cast);  // false: it is to be copied by itself
  };
  std::span<std::byte> bytes(const View& view, Index index) const;
  Status copy(const Copy& copy, Lane& lane);
  void give_up_files();
  Status copy_files(const Copy& copy, Index index, CudaStream stream);
  Status copy_piece(const CopyBlocks& piece, Index index, CudaStream stream, Casts& casts);
  Status copy_block(const CopyBlocks& piece, std::int64_t k, Index index, CudaStream stream,
                    Casts& casts);
  Status copy_blocks(const CopyBlocks& piece, Index index, CudaStream stream, Casts& casts);
  Status compute(const Compute& compute, Lane& lane);
  using Spans = std::vector<std::span<std::byte>>;
  Status launch(const Compute& compute, Lane& lane, const Spans& reads, const Spans& writes);
  Status run(const Compute& compute, Lane& lane, const Spans& reads, const Spans& writes);
  Status run_on_host(const Compute& compute, Lane& lane, const Spans& reads, const Spans& writes);
  Status run_staged(const Compute& compute, Lane& lane, const Spans& reads, const Spans& writes);
  Bytes workspaces_at() const;
  void* workspace(const Lane& lane) const;
  CudaKernels kernels(Lane& lane);
  Status make_staging(Bytes bytes);
  NcclCall call(CommunicatorId id, const View& input, const View& output, Lane& lane) const;
  Status collective(const Op& op, Lane& lane);

  const CudaModule module_;
  const std::unique_ptr<CudaPeers> peers_;
  const CudaOptions options_;
  const Rank rank_;
  Patience patience_;
  DeviceMemory device_;
  DeviceMemory scratch_;  // numbers of `read`, then the kernels' workspaces
  PinnedMemory pinned_;
  PinnedMemory answers_;  // results of `read`
  PinnedMemory staging_;
  std::unique_ptr<DeviceMath> math_;
  Communicators communicators_;
  Collectives collectives_;
  Windows windows_;
  int nccl_version_ = 0;
  Lane* last_collective_ = nullptr;
  EventPool events_;
  Mailbox mailbox_;
  Graphs graphs_;
  CufileApi cufile_{};  // Aio::use_gds
  int device_number_ = 0;
  std::thread::id device_is_set_;  // the thread whose current device is this one
  int entries_ = 0;                // that the operation under way has enqueued
  SwapStore swapped_;
  FileCopies file_copies_;
  std::unique_ptr<FileService> file_service_;  // since there is a file; null where nobody needs it
  IdTable<BufferId, Place> places_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by StreamId
  Lane control_;                              // the stream of `read`
  EventOwners owners_{lanes_};
  Lane* staged_by_ = nullptr;  // the stream that may still copy from the staging memory
  // What names of the model's an operation had that has run once.
  using Known = std::tuple<const char*, const char*, Phase, Reason, OpKind>;
  std::set<Known> known_;
  Status unsettled_;  // why a kernel was not launched that had to be loaded
  int reads_ = 0;
  Status failure_;
  bool finished_ = false;
  std::string device_name_;
  std::unique_ptr<TraceLink> trace_link_;
  std::unique_ptr<HostTrace> trace_;          // or null
  std::unique_ptr<OpTimes> times_;            // with a trace
  std::map<std::int64_t, EventId> profiled_;  // collectives, by NcclCollective::number
};

/// A runtime for one rank of the peers' world. `module` must outlive it.
Result<std::unique_ptr<ProcessRuntime>> make_cuda_runtime(const CudaModule& module,
                                                          std::unique_ptr<CudaPeers> peers,
                                                          const CudaOptions& options);

}  // namespace tessera
