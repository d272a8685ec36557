// SPDX-License-Identifier: Apache-2.0
#include "engine/swap/block_io.h"

#ifdef TESSERA_URING
#include <liburing.h>

#include <cerrno>

namespace tessera {
namespace {

class UringIo final : public BlockIo {
 public:
  UringIo() = default;
  UringIo(const UringIo&) = delete;
  UringIo& operator=(const UringIo&) = delete;
  ~UringIo() override {
    if (open_) io_uring_queue_exit(&ring_);
  }
  bool open(int depth) {
    open_ = io_uring_queue_init(static_cast<unsigned>(depth), &ring_, 0) == 0;
    return open_;
  }

  int start(const BlockRequest& r) override {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr)
      return -EAGAIN;  // as many requests wait for the kernel as it has room for
    const auto size = static_cast<unsigned>(r.size);
    const auto offset = static_cast<std::uint64_t>(r.offset);
    if (r.writes) {
      io_uring_prep_write(entry, r.file, r.data, size, offset);
    } else {
      io_uring_prep_read(entry, r.file, r.data, size, offset);
    }
    io_uring_sqe_set_data64(entry, r.tag);
    // An entry that the kernel did not take stays in the queue, so submitting again takes that one.
    int submitted = 0;
    do submitted = io_uring_submit(&ring_);
    while (submitted == -EINTR || submitted == -EAGAIN || submitted == 0);
    return submitted < 0 ? submitted : 0;
  }
  BlockCompletion wait() override {
    io_uring_cqe* entry = nullptr;
    int waited = 0;
    do waited = io_uring_wait_cqe(&ring_, &entry);
    while (waited == -EINTR || waited == -EAGAIN);
    return waited < 0 ? BlockCompletion{no_tag, waited} : take(entry);
  }
  std::optional<BlockCompletion> poll() override {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0) return {};
    return take(entry);
  }
  const char* name() const override { return "io_uring"; }

 private:
  BlockCompletion take(io_uring_cqe* entry) {
    const BlockCompletion completion{io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return completion;
  }

  io_uring ring_{};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<BlockIo> make_uring_io(int depth) {
  auto io = std::make_unique<UringIo>();
  return io->open(depth) ? std::move(io) : nullptr;
}

}  // namespace tessera

#else

namespace tessera {

std::unique_ptr<BlockIo> make_uring_io(int /*depth*/) { return nullptr; }

}  // namespace tessera

#endif
