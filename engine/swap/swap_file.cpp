// SPDX-License-Identifier: Apache-2.0
#include "engine/swap/swap_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/swap/block_sum.h"

namespace tessera {
namespace {

constexpr std::size_t alignment = 4096;  // what O_DIRECT asks of memory, offset and size

constexpr std::size_t round_up(std::size_t n) {
  return (n + alignment - 1) / alignment * alignment;
}

bool aligned(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

Time time_of(const SwapFileOptions& options) { return options.clock ? options.clock() : 0; }

// Without a name where the system can do that; else the name is taken away at once.
int open_nameless(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = directory + "/.tessera-swap-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

SwapFile::SwapFile(std::string directory, std::string owner, SwapFileOptions options)
    : directory_(std::move(directory)),
      owner_(std::move(owner)),
      options_(std::move(options)),
      block_(round_up(static_cast<std::size_t>(options_.block_size.value))) {}

Result<std::unique_ptr<SwapFile>> SwapFile::open(const std::string& directory,
                                                 const std::string& owner,
                                                 SwapFileOptions options) {
  if (options.block_size < Bytes{1} || options.queue_depth < 1 || options.threads < 1) {
    return Status(Code::invalid_argument,
                  "a swap file needs blocks of a byte, a queue of a request and a thread at least");
  }
  std::unique_ptr<BlockIo> io = std::move(options.io);
  if (!io && options.uring) io = make_uring_io(options.queue_depth);
  if (!io) io = make_thread_io(std::max(options.threads, options.queue_depth));
  std::unique_ptr<SwapFile> file(new SwapFile(directory, owner, std::move(options)));
  file->io_ = std::move(io);
  TESSERA_TRY(file->open_file());
  return file;
}

Status SwapFile::open_file() {
  file_ = open_nameless(directory_);
  if (file_ < 0) {
    return Status(
        Code::io_error,
        fmt::format("{}: {} cannot make its swap file there: {}; nvme_path must be a "
                    "folder that can be written",
                    directory_.empty() ? "no folder" : directory_, owner_, std::strerror(errno)));
  }
  direct_ = options_.direct && fcntl(file_, F_SETFL, fcntl(file_, F_GETFL) | O_DIRECT) == 0;
  const auto depth = static_cast<std::size_t>(options_.queue_depth);
  buffers_ = static_cast<std::byte*>(std::aligned_alloc(alignment, block_ * depth));
  TESSERA_ASSERT(buffers_ != nullptr, "the queue's buffers fit into memory");
  for (int k = options_.queue_depth; k > 0; --k) free_buffers_.push_back(k - 1);
  return {};
}

SwapFile::~SwapFile() {
  waiting_.clear();
  while (!flying_.empty()) complete(io_->wait());
  io_.reset();
  if (file_ >= 0) close(file_);
  std::free(buffers_);
}

SlotId SwapFile::add(std::string name, Bytes bytes) {
  slots_.push_back({.name = std::move(name), .bytes = bytes, .place = -1, .sums = {}});
  return SlotId{static_cast<std::int32_t>(slots_.size() - 1)};
}

void SwapFile::remove(SlotId id) {
  Slot& slot = at(id);
  const auto bytes =
      static_cast<std::int64_t>(round_up(static_cast<std::size_t>(slot.bytes.value)));
  if (slot.place >= 0) extents_.give_back(slot.place, bytes);
  slot = {};
}

Status SwapFile::write(SlotId slot, std::span<const std::byte> data) {
  return finish(start_write(slot, data));
}

Status SwapFile::read(SlotId slot, std::span<std::byte> data) {
  return finish(start_read(slot, data));
}

TransferId SwapFile::start_write(SlotId slot, std::span<const std::byte> data) {
  TESSERA_ASSERT(static_cast<std::int64_t>(data.size()) == at(slot).bytes.value,
                 "a slot is written as a whole");
  return start(slot, true, const_cast<std::byte*>(data.data()));  // writing only reads it
}

TransferId SwapFile::start_read(SlotId slot, std::span<std::byte> data) {
  TESSERA_ASSERT(static_cast<std::int64_t>(data.size()) == at(slot).bytes.value,
                 "a slot is read as a whole");
  return start(slot, false, data.data());
}

TransferId SwapFile::start(SlotId id, bool writes, std::byte* data) {
  const Slot& slot = at(id);
  const auto bytes = static_cast<std::size_t>(slot.bytes.value);
  Transfer transfer{.slot = id, .writes = writes, .data = data};
  transfer.blocks = (bytes + block_ - 1) / block_;
  transfer.begin = time_of(options_);
  transfer.place = slot.place;
  if (writes) {
    transfer.sums.resize(transfer.blocks);
    TESSERA_ASSERT(transfer.blocks == 0 || data != nullptr, "there is something to write");
    transfer.status = reserve(transfer, static_cast<std::int64_t>(round_up(bytes)));
  } else if (slot.place < 0) {
    transfer.status = failed(transfer, 0, "nothing was written there yet");
  }
  const TransferId ticket{next_transfer_++};
  transfers_.emplace(ticket, std::move(transfer));
  waiting_.push_back(ticket);
  fill_queue();
  return ticket;
}

// Room that the file system has given cannot run out while blocks are under way, and giving it once
// is faster than with every block.
Status SwapFile::reserve(Transfer& transfer, std::int64_t bytes) {
  const std::int64_t before = extents_.end();
  transfer.place = extents_.take(bytes);
  if (extents_.end() == before) return {};
  if (fallocate(file_, 0, transfer.place, bytes) == 0 || errno != ENOSPC) return {};
  return judge(transfer, 0, 0, -ENOSPC);
}

std::size_t SwapFile::block_bytes(const Slot& slot, std::size_t number) const {
  return std::min(block_, static_cast<std::size_t>(slot.bytes.value) - number * block_);
}

void SwapFile::fill_queue() {
  while (!waiting_.empty() && flying_.size() < static_cast<std::size_t>(options_.queue_depth)) {
    const TransferId id = waiting_.front();
    const Transfer& transfer = transfers_.at(id);
    if (!transfer.status.ok() || transfer.started == transfer.blocks) {
      waiting_.pop_front();
    } else {
      start_block(id);
    }
  }
}

void SwapFile::start_block(TransferId id) {
  Transfer& transfer = transfers_.at(id);
  Block block{.transfer = id, .number = transfer.started++};
  const std::size_t size = block_bytes(at(transfer.slot), block.number);
  std::byte* const own = transfer.data + block.number * block_;
  block.data = own;
  if (direct_ && (!aligned(own) || size % alignment != 0)) {
    block.buffer = free_buffers_.back();
    free_buffers_.pop_back();
    block.data = buffers_ + static_cast<std::size_t>(block.buffer) * block_;
  }
  if (transfer.writes) {
    transfer.sums[block.number] = block_sum({own, size});
    if (block.buffer >= 0) {
      std::memcpy(block.data, own, size);
      std::memset(block.data + size, 0, round_up(size) - size);
    }
  }
  const std::uint64_t tag = next_tag_++;
  flying_.emplace(tag, block);
  if (const int refused = request(tag); refused != 0) {
    end_block(tag, failed(transfer, block.number, std::strerror(-refused)));
  }
}

int SwapFile::request(std::uint64_t tag) {
  const Block& block = flying_.at(tag);
  const Transfer& transfer = transfers_.at(block.transfer);
  const std::size_t size = block_bytes(at(transfer.slot), block.number);
  const std::size_t whole = direct_ ? round_up(size) : size;
  return io_->start(
      {.writes = transfer.writes,
       .file = file_,
       .data = block.data + block.done,
       .size = whole - block.done,
       .offset = transfer.place + static_cast<std::int64_t>(block.number * block_ + block.done),
       .tag = tag});
}

Status SwapFile::failed(const Transfer& transfer, std::size_t number,
                        const std::string& what) const {
  const Slot& slot = slots_[static_cast<std::size_t>(transfer.slot.value)];
  return Status(
      Code::io_error,
      fmt::format("{}: {}: {} {} ({} bytes, the block at offset {}) failed: {}", directory_, owner_,
                  transfer.writes ? "writing" : "reading", slot.name, slot.bytes.value,
                  transfer.place + static_cast<std::int64_t>(number * block_), what));
}

// What the system says went wrong with a block, if anything.
Status SwapFile::judge(const Transfer& transfer, std::size_t number, std::size_t done,
                       std::int64_t result) const {
  if (result == -ENOSPC) {
    return failed(transfer, number,
                  "no space left; what was there before is kept: free some or choose another "
                  "nvme_path");
  }
  if (result < 0) {
    return failed(transfer, number, std::strerror(static_cast<int>(-result)));
  }
  if (result > 0) return {};
  const Slot& slot = slots_[static_cast<std::size_t>(transfer.slot.value)];
  return failed(transfer, number,
                fmt::format("it ended after {} of {} bytes", done, block_bytes(slot, number)));
}

// A block that moved in part goes on where it stopped.
void SwapFile::complete(const BlockCompletion& completion) {
  if (completion.tag == no_tag) {
    while (!flying_.empty()) {
      const auto& [tag, block] = *flying_.begin();
      end_block(tag,
                judge(transfers_.at(block.transfer), block.number, block.done, completion.result));
    }
    return;
  }
  Block& block = flying_.at(completion.tag);
  Transfer& transfer = transfers_.at(block.transfer);
  const bool again = completion.result == -EINTR || completion.result == -EAGAIN;
  Status status = again ? Status{} : judge(transfer, block.number, block.done, completion.result);
  const std::size_t size = block_bytes(at(transfer.slot), block.number);
  if (status.ok() && !again) {
    const std::size_t before = block.done;
    block.done += static_cast<std::size_t>(completion.result);
    if (block.done >= size) {
      if (!transfer.writes) status = check_sum(block);
      return end_block(completion.tag, status);
    }
    if (direct_) block.done = block.done / alignment * alignment;
    if (block.done == before) {
      status = failed(transfer, block.number,
                      fmt::format("it stopped after {} of {} bytes", completion.result, size));
    }
  }
  if (status.ok()) {
    const int refused = request(completion.tag);
    if (refused == 0) return;
    status = failed(transfer, block.number, std::strerror(-refused));
  }
  end_block(completion.tag, status);
}

Status SwapFile::check_sum(Block& block) {
  const Transfer& transfer = transfers_.at(block.transfer);
  const Slot& slot = at(transfer.slot);
  const std::size_t size = block_bytes(slot, block.number);
  if (block_sum({block.data, size}) != slot.sums[block.number]) {
    return failed(transfer, block.number,
                  "its checksum differs from what was written; the drive or its file is damaged");
  }
  if (block.buffer >= 0) std::memcpy(transfer.data + block.number * block_, block.data, size);
  return {};
}

void SwapFile::end_block(std::uint64_t tag, const Status& status) {
  const Block block = flying_.at(tag);
  Transfer& transfer = transfers_.at(block.transfer);
  if (block.buffer >= 0) free_buffers_.push_back(block.buffer);
  // The first of them, whatever the order in which they end.
  if (!status.ok() && (transfer.status.ok() || block.number < transfer.failed)) {
    transfer.status = status;
    transfer.failed = block.number;
  }
  ++transfer.ended;
  flying_.erase(tag);
}

bool SwapFile::is_over(const Transfer& transfer) {
  const bool all = transfer.started == transfer.blocks || !transfer.status.ok();
  return all && transfer.ended == transfer.started;
}

Status SwapFile::finish(TransferId id) {
  const Transfer& transfer = transfers_.at(id);
  while (!is_over(transfer)) {
    fill_queue();
    if (!is_over(transfer)) complete(io_->wait());
  }
  return conclude(id);
}

Result<bool> SwapFile::test(TransferId id) {
  const Transfer& transfer = transfers_.at(id);
  for (bool moved = true; moved && !is_over(transfer);) {
    fill_queue();
    const auto completion = io_->poll();
    moved = completion.has_value();
    if (moved) complete(*completion);
  }
  if (!is_over(transfer)) return false;
  TESSERA_TRY(conclude(id));
  return true;
}

bool SwapFile::wait() {
  fill_queue();
  if (flying_.empty()) return false;
  complete(io_->wait());
  return true;
}

Status SwapFile::conclude(TransferId id) {
  std::erase(waiting_, id);
  const Status status = end(transfers_.at(id));
  transfers_.erase(id);
  fill_queue();
  return status;
}

Status SwapFile::end(Transfer& transfer) {
  Slot& slot = at(transfer.slot);
  const auto bytes =
      static_cast<std::int64_t>(round_up(static_cast<std::size_t>(slot.bytes.value)));
  if (transfer.writes) {
    std::int64_t unused = transfer.place;
    if (transfer.status.ok()) {
      unused = std::exchange(slot.place, transfer.place);
      slot.sums = std::move(transfer.sums);
    }
    if (unused >= 0) extents_.give_back(unused, bytes);
  }
  if (options_.on_done) {
    options_.on_done({slot.name, transfer.writes, slot.bytes, transfer.begin, time_of(options_)});
  }
  return transfer.status;
}

}  // namespace tessera
