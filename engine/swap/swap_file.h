// SPDX-License-Identifier: Apache-2.0
// A rank's file on NVMe: partitions that are not in memory.
//
// The idea: what is written goes to a new place, and only when all of it arrived does that place
// become the slot's. So a write that fails, or a disk that is full, leaves what was there before.
// Every block has a checksum, which reading verifies; a block that moved in parts is continued. A
// file has no name: it is gone when the process is, however that ends.
//
//   TESSERA_ASSIGN(auto file, SwapFile::open("/nvme", "rank 3", {}));
//   const SlotId slot = file->add("layers.7.weight", bytes);
//   TESSERA_TRY(file->write(slot, values));
//   TESSERA_TRY(file->read(slot, values));
//
// `start_…` returns at once; `finish` waits for that transfer alone, while others go on; `test` for
// none. Memory must stay until one of them said that it is over. Where it is aligned to 4096 bytes
// it is read and written directly, else through buffers.
//
// Memory of a device goes to the file's io as it is, which must know what to do with it. Only the
// device can look at it, so whoever has it brings the checksums of its blocks.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/swap/block_io.h"
#include "engine/swap/extents.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

using SlotId = Id<struct SlotTag>;
using TransferId = Id<struct TransferTag>;

/// One read or write of a slot, when it is over.
struct SwapTransfer {
  std::string_view slot;
  bool writes = false;
  Bytes bytes{};
  Time begin = 0;  // by SwapFileOptions::clock
  Time end = 0;
};

struct SwapFileOptions {
  Bytes block_size{1 << 20};  // of one request; rounded up to 4096
  int queue_depth = 8;        // requests at a time
  int threads = 1;            // where there is no io_uring
  bool uring = true;
  bool direct = true;  // past the page cache, where the file system allows it
  std::function<Time()> clock;
  std::function<void(const SwapTransfer&)> on_done;
  std::unique_ptr<BlockIo> io;  // instead of io_uring or threads: for tests
};

class SwapFile {
 public:
  /// Fails: io_error (the folder is missing or cannot be written), naming it.
  static Result<std::unique_ptr<SwapFile>> open(const std::string& directory,
                                                const std::string& owner, SwapFileOptions options);
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;
  ~SwapFile();

  /// A slot of so many bytes; there is nothing in it until it was written.
  SlotId add(std::string name, Bytes bytes);
  /// REQUIRES: no transfer of it is under way.
  void remove(SlotId slot);

  /// `data` is the whole slot. Fails: io_error (a failed or short read or write, a full disk, what
  /// was read is not what was written), naming folder, slot, bytes and offset. A slot whose write
  /// failed is as it was.
  Status write(SlotId slot, std::span<const std::byte> data);
  Status read(SlotId slot, std::span<std::byte> data);

  TransferId start_write(SlotId slot, std::span<const std::byte> data);
  TransferId start_read(SlotId slot, std::span<std::byte> data);
  /// `sums`: `block_sum` of each block of `block_size()` bytes.
  TransferId start_write_from_device(SlotId slot, std::span<std::byte> data,
                                     std::vector<std::uint64_t> sums);
  /// What arrived is not checked: `check` does that.
  TransferId start_read_to_device(SlotId slot, std::span<std::byte> data);
  /// Whether these are the checksums of what was written. Fails: io_error, as `read`.
  Status check(SlotId slot, std::span<const std::uint64_t> sums) const;
  Status finish(TransferId transfer);
  /// As `finish` if the transfer is over, which is true then; returns at once.
  Result<bool> test(TransferId transfer);
  /// Stops until a block of any transfer has moved. False: none is under way.
  bool wait();

  /// Whether blocks are under way.
  bool moving() const { return !flying_.empty(); }

  bool direct() const { return direct_; }
  const char* io_name() const { return io_->name(); }
  std::size_t block_size() const { return block_; }
  std::size_t block_count(std::size_t bytes) const { return (bytes + block_ - 1) / block_; }
  /// Of the file, holes included.
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
    std::size_t number = 0;  // of its slot
    std::size_t done = 0;    // bytes
    std::byte* data = nullptr;
    int buffer = -1;  // which it is, if it is not the caller's memory
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
    std::size_t failed = 0;  // the block that `status` is about
    Time begin = 0;
  };

  SwapFile(std::string directory, std::string owner, SwapFileOptions options);
  Status open_file();

  Slot& at(SlotId id) { return slots_[id.index()]; }
  const Slot& at(SlotId id) const { return slots_[id.index()]; }
  std::size_t block_bytes(const Slot& slot, std::size_t number) const;
  /// `size`: of its data.
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
  std::byte* buffers_ = nullptr;  // queue_depth of them
  std::vector<int> free_buffers_;
  Extents extents_;
  std::vector<Slot> slots_;
  std::map<TransferId, Transfer> transfers_;  // that nobody has finished
  std::deque<TransferId> waiting_;            // that have blocks to start
  std::map<std::uint64_t, Block> flying_;     // by tag
  std::uint64_t next_tag_ = 0;
  std::int32_t next_transfer_ = 0;
};

}  // namespace tessera
