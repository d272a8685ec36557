// SPDX-License-Identifier: Apache-2.0
// The link of a trace between ranks that only NCCL connects.
//
// The idea: data go through device memory in pieces of one size, each by one all_gather of the
// world, from which every rank takes its part. So each piece has a place in the order of
// collectives, which is why ranks must come to it together.
#pragma once

#include "engine/backends/cuda/communicators.h"
#include "engine/backends/cuda/device_memory.h"
#include "engine/backends/cuda/lane.h"
#include "engine/backends/cuda/peers.h"
#include "engine/backends/cuda/staging.h"
#include "engine/backends/host/trace_link.h"

namespace tessera {

class NcclLink final : public TraceLink {
 public:
  /// All references must outlive it. REQUIRES: no other work is enqueued on `stream`.
  NcclLink(const CudaApi& cuda, const NcclApi& nccl, CudaPeers& peers, Communicators& communicators,
           EventPool& events, CudaStream stream)
      : cuda_(cuda),
        nccl_(nccl),
        peers_(peers),
        communicators_(communicators),
        events_(events),
        stream_(stream),
        device_(cuda),
        host_(cuda) {}
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  /// REQUIRES: nothing on the device uses its memory any more, or `abandon` was called.
  ~NcclLink() override;

  /// Allocates memory: a megabyte, or 4 KiB a rank. REQUIRES: nothing runs on the device.
  Status open(int device);

  Rank rank() const override { return peers_.rank(); }
  Rank ranks() const override { return peers_.ranks(); }
  bool at_any_time() const override { return false; }
  Result<Request> broadcast(std::span<std::byte> data) override;
  Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all) override;
  Result<bool> test(Request request) override;
  void abort(const Status& why) override { peers_.abort(why); }
  void abandon() override;

 private:
  struct Message {
    std::span<const std::byte> own;
    std::span<std::byte> all;   // gather, on rank 0
    std::span<std::byte> data;  // broadcast
    std::size_t sent = 0;       // bytes sent once the piece under way has arrived
    std::size_t piece = 0;      // bytes under way
  };
  Result<Request> start(Message message);
  Status send();
  void take();

  const CudaApi& cuda_;
  const NcclApi& nccl_;
  CudaPeers& peers_;
  Communicators& communicators_;
  EventPool& events_;
  const CudaStream stream_;
  std::size_t piece_max_ = 0;
  DeviceMemory device_;  // this rank's piece, then those of all ranks
  PinnedMemory host_;    // the same layout as on the device
  Message message_;
  CudaEvent arrived_ = nullptr;  // behind the piece under way; null: there is none
};

}  // namespace tessera
