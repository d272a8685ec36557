// SPDX-License-Identifier: Apache-2.0
// Blocks of a swap file: they are passed to its BlockIo and checked when they have moved.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/files/block_sum.h"
#include "engine/swap/alignment.h"
#include "engine/swap/swap_file.h"

namespace tessera {
namespace {

constexpr std::int64_t cufile_errors = 5000;  // cuFile's codes start here; an errno is smaller
constexpr const char* damage =
    "its checksum differs from what was written; the drive or its file is damaged";

bool aligned(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % file_alignment == 0;
}

std::string reason_of(std::int64_t error) {
  if (error < cufile_errors) return std::strerror(static_cast<int>(error));
  return fmt::format(
      "cuFile's error {}, of which its cufile.log says more; without use_gds it goes through host "
      "memory",
      error);
}

}  // namespace

std::size_t SwapFile::block_bytes(const Slot& slot, std::size_t number) const {
  return std::min(block_, static_cast<std::size_t>(slot.bytes.value) - number * block_);
}

// Keeps queue_depth blocks under way, over all transfers in the order in which they were started.
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
  TESSERA_ASSERT(transfer.started < transfer.blocks, "a block is left to start");
  Block block{.transfer = id, .number = transfer.started++};
  const std::size_t size = block_bytes(at(transfer.slot), block.number);
  std::byte* const own = transfer.data + block.number * block_;
  block.data = own;
  // O_DIRECT needs aligned addresses and sizes: other blocks go through an aligned buffer. There is
  // one for each place of the queue, so a free one always exists here.
  if (direct_ && !transfer.on_device && (!aligned(own) || size % file_alignment != 0)) {
    TESSERA_ASSERT(!free_buffers_.empty(), "a buffer for every block under way");
    block.buffer = free_buffers_.back();
    free_buffers_.pop_back();
    block.data = buffers_ + static_cast<std::size_t>(block.buffer) * block_;
  }
  // The checksum is that of the caller's memory, before any copy, so that it covers the buffer,
  // too.
  if (transfer.writes && !transfer.on_device) {
    transfer.sums[block.number] = block_sum({own, size});
    if (block.buffer >= 0) {
      std::memcpy(block.data, own, size);
      std::memset(block.data + size, 0, file_aligned(size) - size);
    }
  }
  // Noted before it is requested: the request may be refused, and ends like any other then.
  const std::uint64_t tag = next_tag_++;
  flying_.emplace(tag, block);
  if (const int refused = request(tag); refused != 0) {
    end_block(tag, failed(transfer, block.number, reason_of(-refused)));
  }
}

int SwapFile::request(std::uint64_t tag) {
  const Block& block = flying_.at(tag);
  const Transfer& transfer = transfers_.at(block.transfer);
  const Slot& slot = at(transfer.slot);
  const std::size_t size = block_bytes(slot, block.number);
  TESSERA_ASSERT(block.done < size, "a block that has moved is not requested again");
  const bool rounds =
      direct_ && !transfer.on_device;  // the place in the file is rounded up as well
  BlockRequest request{
      .writes = transfer.writes,
      .file = file_,
      .data = block.data + block.done,
      .size = (rounds ? file_aligned(size) : size) - block.done,
      .offset = transfer.place + static_cast<std::int64_t>(block.number * block_ + block.done),
      .tag = tag,
      .on_device = {}};
  if (transfer.on_device) {
    request.on_device = {transfer.data, static_cast<std::size_t>(slot.bytes.value)};
  }
  return io_->start(request);
}

Status SwapFile::failed(const Transfer& transfer, std::size_t number,
                        const std::string& what) const {
  const Slot& slot = at(transfer.slot);
  return Status(
      Code::io_error,
      fmt::format("{}: {}: {} {} ({} bytes, the block at offset {}) failed: {}", directory_, owner_,
                  transfer.writes ? "writing" : "reading", slot.name, slot.bytes.value,
                  transfer.place + static_cast<std::int64_t>(number * block_), what));
}

// The error of a block with this result; ok if bytes have moved. A result of 0 is the end of the
// file, or a drive that takes no more.
Status SwapFile::judge(const Transfer& transfer, std::size_t number, std::size_t done,
                       std::int64_t result) const {
  if (result == -ENOSPC) {
    return failed(transfer, number,
                  "no space left; what was there before is kept: free some or choose another "
                  "nvme_path");
  }
  if (result < 0) {
    return failed(transfer, number, reason_of(-result));
  }
  if (result > 0) return {};
  const Slot& slot = at(transfer.slot);
  return failed(transfer, number,
                fmt::format("it ended after {} of {} bytes", done, block_bytes(slot, number)));
}

// A block that moved in part is requested again from where it stopped; interrupted ones are
// repeated.
void SwapFile::complete(const BlockCompletion& completion) {
  // Without a tag the queue itself has failed: no completion will come any more, so all blocks
  // fail.
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
      if (!transfer.writes && !transfer.on_device) status = check_sum(block);
      return end_block(completion.tag, status);
    }
    // A direct request must begin at a multiple of the alignment, so a few bytes are moved twice. A
    // block that does not advance by it would be repeated for ever.
    if (direct_) block.done = block.done / file_alignment * file_alignment;
    if (block.done == before) {
      status = failed(transfer, block.number,
                      fmt::format("it stopped after {} of {} bytes", completion.result, size));
    }
  }
  if (status.ok()) {
    const int refused = request(completion.tag);
    if (refused == 0) return;
    status = failed(transfer, block.number, reason_of(-refused));
  }
  end_block(completion.tag, status);
}

Status SwapFile::check(SlotId slot, std::span<const std::uint64_t> sums) const {
  const std::vector<std::uint64_t>& written = at(slot).sums;
  TESSERA_ASSERT(sums.size() == written.size(), "a checksum belongs to every block");
  const auto differs = std::mismatch(sums.begin(), sums.end(), written.begin()).first;
  if (differs == sums.end()) return {};
  const auto number = static_cast<std::size_t>(differs - sums.begin());
  return failed({.slot = slot, .place = at(slot).place}, number, damage);
}

Status SwapFile::check_sum(const Block& block) {
  const Transfer& transfer = transfers_.at(block.transfer);
  const Slot& slot = at(transfer.slot);
  const std::size_t size = block_bytes(slot, block.number);
  TESSERA_ASSERT(block.number < slot.sums.size(), "what is read was written, with a sum per block");
  if (block_sum({block.data, size}) != slot.sums[block.number]) {
    return failed(transfer, block.number, damage);
  }
  if (block.buffer >= 0) std::memcpy(transfer.data + block.number * block_, block.data, size);
  return {};
}

void SwapFile::end_block(std::uint64_t tag, const Status& status) {
  const Block block = flying_.at(tag);
  Transfer& transfer = transfers_.at(block.transfer);
  if (block.buffer >= 0) free_buffers_.push_back(block.buffer);
  TESSERA_ASSERT(std::ssize(free_buffers_) <= options_.queue_depth, "a buffer is given back once");
  // Blocks end in any order, but the error of the first one in the slot is reported, so that the
  // message is the same in every run.
  if (!status.ok() && (transfer.status.ok() || block.number < transfer.failed)) {
    transfer.status = status;
    transfer.failed = block.number;
  }
  ++transfer.ended;
  TESSERA_ASSERT(transfer.ended <= transfer.started, "blocks end after they have started");
  flying_.erase(tag);
}

}  // namespace tessera
