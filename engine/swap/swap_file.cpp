// SPDX-License-Identifier: Apache-2.0
#include "engine/swap/swap_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/swap/alignment.h"

namespace tessera {
namespace {

Time time_of(const SwapFileOptions& options) { return options.clock ? options.clock() : 0; }

// Opens a file without a name, which the system frees when the process ends, however that happens.
// cuFile and file systems without O_TMPFILE get a named file whose name is removed at once: cuFile
// refuses the flag, which a file keeps (5019, CU_FILE_INVALID_FILE_OPEN_FLAG).
int open_nameless(const std::string& directory, bool for_cufile) {
  if (!for_cufile) {
    const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  }
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
      block_(file_aligned(static_cast<std::size_t>(options_.block_size.value))) {}

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
  file_ = open_nameless(directory_, options_.for_cufile);
  if (file_ < 0) {
    return Status(
        Code::io_error,
        fmt::format("{}: {} cannot make its swap file there: {}; nvme_path must be a "
                    "folder that can be written",
                    directory_.empty() ? "no folder" : directory_, owner_, std::strerror(errno)));
  }
  // Some file systems (tmpfs, some overlays) refuse O_DIRECT: they are used through the page cache.
  direct_ = options_.direct && fcntl(file_, F_SETFL, fcntl(file_, F_GETFL) | O_DIRECT) == 0;
  const auto depth = static_cast<std::size_t>(options_.queue_depth);
  buffers_ = static_cast<std::byte*>(std::aligned_alloc(file_alignment, block_ * depth));
  TESSERA_ASSERT(buffers_ != nullptr, "the queue's buffers fit into memory");
  for (int k = options_.queue_depth; k > 0; --k) free_buffers_.push_back(k - 1);
  return {};
}

// The system may still write to the memory of blocks under way, so they are awaited first. The io
// goes before the file that its threads use.
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
      static_cast<std::int64_t>(file_aligned(static_cast<std::size_t>(slot.bytes.value)));
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
  auto* const bytes = const_cast<std::byte*>(data.data());  // writing only reads it
  return start({.slot = slot, .writes = true, .data = bytes}, data.size());
}

TransferId SwapFile::start_read(SlotId slot, std::span<std::byte> data) {
  return start({.slot = slot, .data = data.data()}, data.size());
}

TransferId SwapFile::start_write_from_device(SlotId slot, std::span<std::byte> data,
                                             std::vector<std::uint64_t> sums) {
  return start({.slot = slot,
                .writes = true,
                .data = data.data(),
                .on_device = true,
                .sums = std::move(sums)},
               data.size());
}

TransferId SwapFile::start_read_to_device(SlotId slot, std::span<std::byte> data) {
  return start({.slot = slot, .data = data.data(), .on_device = true}, data.size());
}

TransferId SwapFile::start(Transfer transfer, std::size_t size) {
  const Slot& slot = at(transfer.slot);
  const auto bytes = static_cast<std::size_t>(slot.bytes.value);
  TESSERA_ASSERT(size == bytes, "a slot is read and written as a whole");
  transfer.blocks = block_count(bytes);
  transfer.begin = time_of(options_);
  transfer.place = slot.place;
  if (transfer.writes) {
    if (!transfer.on_device) transfer.sums.resize(transfer.blocks);
    TESSERA_ASSERT(transfer.sums.size() == transfer.blocks, "a checksum belongs to every block");
    TESSERA_ASSERT(transfer.blocks == 0 || transfer.data != nullptr, "there is something to write");
    transfer.status = reserve(transfer, static_cast<std::int64_t>(file_aligned(bytes)));
  } else if (slot.place < 0) {
    transfer.status = failed(transfer, 0, "nothing was written there yet");
  }
  const TransferId ticket{next_transfer_++};
  transfers_.emplace(ticket, std::move(transfer));
  waiting_.push_back(ticket);
  fill_queue();
  return ticket;
}

// Takes a new place in the file, never that of the slot's values. Where the file grows, its space
// is allocated at once: then it cannot run out while blocks are under way, and one allocation is
// faster than one per block. File systems without fallocate go on without it.
Status SwapFile::reserve(Transfer& transfer, std::int64_t bytes) {
  const std::int64_t before = extents_.end();
  transfer.place = extents_.take(bytes);
  if (extents_.end() == before) return {};
  if (fallocate(file_, 0, transfer.place, bytes) == 0 || errno != ENOSPC) return {};
  return judge(transfer, 0, 0, -ENOSPC);
}

// After an error no further block is started, but those under way must end before the caller's
// memory is free.
bool SwapFile::is_over(const Transfer& transfer) {
  TESSERA_ASSERT(transfer.ended <= transfer.started && transfer.started <= transfer.blocks,
                 "blocks end after they have started");
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

// Takes all completions that are there, whichever transfer they belong to, and refills the queue
// with each, so that a caller that only tests keeps the drive busy.
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
  // It may still wait for its turn: a transfer that failed is over before all blocks have started.
  std::erase(waiting_, id);
  const Status status = end(transfers_.at(id));
  transfers_.erase(id);
  fill_queue();
  return status;
}

Status SwapFile::end(Transfer& transfer) {
  Slot& slot = at(transfer.slot);
  const auto bytes =
      static_cast<std::int64_t>(file_aligned(static_cast<std::size_t>(slot.bytes.value)));
  // The slot changes places only here, after all blocks have arrived. The place that is not used
  // any more, the old one or that of a failed write, is free for the next write.
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
