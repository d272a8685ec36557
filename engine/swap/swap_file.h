// SPDX-License-Identifier: Apache-2.0
// A rank's file on NVMe: it holds the partitions that are not in memory.
//
// The idea: a write goes to a new place, which becomes the slot's only when all blocks have
// arrived. So a write that fails, or a disk that is full, leaves the old values readable. Every
// block has a checksum, which reading verifies; a block that moved in part is continued. The file
// has no name, so it is gone when the process is, however that ends.
//
//   TESSERA_ASSIGN(auto file, SwapFile::open("/nvme", "rank 3", {}));
//   const SlotId slot = file->add("layers.7.weight", bytes);
//   TESSERA_TRY(file->write(slot, values));
//   TESSERA_TRY(file->read(slot, values));
//
// `start_…` returns at once; `finish` waits for that transfer alone, while others go on; `test`
// never waits. The caller's memory must live until one of the two has said that the transfer is
// over. Memory aligned to 4096 bytes is read and written directly, other memory through buffers.
//
// Device memory is passed to the BlockIo as it is, which must be able to read and write it. The
// host cannot read such memory, so the caller brings the checksums of its blocks.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/swap/block_io.h"
#include "engine/swap/extents.h"
#include "tessera/assert.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

using SlotId = Id<struct SlotTag>;
using TransferId = Id<struct TransferTag>;

/// A read or write of a slot that is over.
struct SwapTransfer {
  std::string_view slot;
  bool writes = false;
  Bytes bytes{};
  Time begin = 0;  // by SwapFileOptions::clock
  Time end = 0;
};

struct SwapFileOptions {
  Bytes block_size{1 << 20};  // size of one request; rounded up to a multiple of 4096
  int queue_depth = 8;        // requests under way at a time
  int threads = 1;            // used where there is no io_uring
  bool uring = true;
  bool direct = true;  // O_DIRECT, where the file system allows it
  bool for_cufile = false;
  std::function<Time()> clock;
  std::function<void(const SwapTransfer&)> on_done;
  std::unique_ptr<BlockIo> io;  // replaces io_uring and threads, for tests
};

class SwapFile {
 public:
  /// Fails: io_error (the folder is missing or cannot be written), naming it.
  static Result<std::unique_ptr<SwapFile>> open(const std::string& directory,
                                                const std::string& owner, SwapFileOptions options);
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;
  ~SwapFile();

  /// Adds a slot of `bytes` bytes, which can be read once it was written.
  SlotId add(std::string name, Bytes bytes);
  /// Frees the slot's place in the file. REQUIRES: no transfer of the slot is under way.
  void remove(SlotId slot);

  /// Writes or reads the whole slot. Fails: io_error (a failed or short read or write, a full disk,
  /// a checksum that does not match), naming folder, slot, bytes and offset. A slot whose write
  /// failed keeps its old values.
  Status write(SlotId slot, std::span<const std::byte> data);
  Status read(SlotId slot, std::span<std::byte> data);

  TransferId start_write(SlotId slot, std::span<const std::byte> data);
  TransferId start_read(SlotId slot, std::span<std::byte> data);
  /// Writes device memory; `sums` has the `block_sum` of each block of `block_size()` bytes.
  TransferId start_write_from_device(SlotId slot, std::span<std::byte> data,
                                     std::vector<std::uint64_t> sums);
  /// Reads into device memory, unverified: the caller computes the checksums and calls `check`.
  TransferId start_read_to_device(SlotId slot, std::span<std::byte> data);
  /// Compares `sums` with those of the values that were written. Fails: io_error, as `read`.
  Status check(SlotId slot, std::span<const std::uint64_t> sums) const;
  /// Waits until the transfer is over and forgets it. Fails: as `read` and `write`.
  Status finish(TransferId transfer);
  /// Returns at once: false while the transfer is under way, otherwise as `finish`, and true.
  Result<bool> test(TransferId transfer);
  /// Waits until a block of any transfer has moved. Returns false if none is under way.
  bool wait();

  /// Whether blocks are under way.
  bool moving() const { return !flying_.empty(); }

  bool direct() const { return direct_; }
  const char* io_name() const { return io_->name(); }
  std::size_t block_size() const { return block_; }
  std::size_t block_count(std::size_t bytes) const { return (bytes + block_ - 1) / block_; }
  /// The size of the file, free places included.
  Bytes size() const { return Bytes{extents_.end()}; }

 private:
  struct Slot {
    std::string name;
    Bytes bytes{};
    std::int64_t place = -1;  // in the file; -1: never written
    std::vector<std::uint64_t> sums;
  };
  struct Block {
    TransferId transfer;
    std::size_t number = 0;  // its place in the slot
    std::size_t done = 0;    // bytes that have moved
    std::byte* data = nullptr;
    int buffer = -1;  // the buffer that it goes through; -1: the caller's memory
  };
  struct Transfer {
    SlotId slot;
    bool writes = false;
    std::byte* data = nullptr;
    bool on_device = false;
    std::int64_t place = 0;
    std::size_t blocks = 0, started = 0, ended = 0;
    std::vector<std::uint64_t> sums{};
    Status status{};
    std::size_t failed = 0;  // the first block that failed, to which `status` belongs
    Time begin = 0;
  };

  SwapFile(std::string directory, std::string owner, SwapFileOptions options);
  Status open_file();

  Slot& at(SlotId id) { return const_cast<Slot&>(std::as_const(*this).at(id)); }
  const Slot& at(SlotId id) const {
    TESSERA_ASSERT(id.valid() && id.index() < slots_.size(), "a slot of this file");
    return slots_[id.index()];
  }
  std::size_t block_bytes(const Slot& slot, std::size_t number) const;
  /// Starts the transfer of `size` bytes.
  TransferId start(Transfer transfer, std::size_t size);
  void fill_queue();
  void start_block(TransferId id);
  int request(std::uint64_t tag);
  void complete(const BlockCompletion& completion);
  static bool is_over(const Transfer& transfer);
  Status conclude(TransferId id);
  void end_block(std::uint64_t tag, const Status& status);
  Status reserve(Transfer& transfer, std::int64_t bytes);
  Status judge(const Transfer& transfer, std::size_t number, std::size_t done,
               std::int64_t result) const;
  Status check_sum(const Block& block);
  Status failed(const Transfer& transfer, std::size_t number, const std::string& what) const;
  Status end(Transfer& transfer);

  const std::string directory_, owner_;
  const SwapFileOptions options_;
  const std::size_t block_;
  std::unique_ptr<BlockIo> io_;
  int file_ = -1;
  bool direct_ = false;
  std::byte* buffers_ = nullptr;  // queue_depth blocks
  std::vector<int> free_buffers_;
  Extents extents_;
  std::vector<Slot> slots_;
  std::map<TransferId, Transfer> transfers_;  // until `finish` or `test` has reported them
  std::deque<TransferId> waiting_;            // transfers with blocks to start
  std::map<std::uint64_t, Block> flying_;     // blocks under way, by tag
  std::uint64_t next_tag_ = 0;
  std::int32_t next_transfer_ = 0;
};

}  // namespace tessera
