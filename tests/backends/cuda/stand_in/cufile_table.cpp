// SPDX-License-Identifier: Apache-2.0
// The stand-in's functions of cuFile. The real ones may be called by any thread, these by the rank
// whose turn it is.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "engine/swap/alignment.h"
#include "tests/backends/cuda/stand_in/tables.h"

namespace tessera::test {
namespace {

constexpr int cufile_invalid_file_open_flag = 5019;
constexpr int cufile_invalid_value = 5022;
constexpr int cufile_already_registered = 5023;

int handle_register(int, void** handle, int file) {
  return called(Call::cufile_handle_register, [&](StandIn& world) {
    if ((fcntl(file, F_GETFL) & O_TMPFILE) == O_TMPFILE) return cufile_invalid_file_open_flag;
    *handle = world.cufile().open(file);
    return 0;
  });
}
int buffer_register(int device, void* base, std::size_t bytes) {
  return called(Call::cufile_buffer_register, [&](StandIn& world) {
    if (!world.memory().accessible(base, bytes, device)) return cufile_invalid_value;
    return world.cufile().add(base, bytes) ? 0 : cufile_already_registered;
  });
}
void handle_deregister(int, void* handle) {
  called(Call::cufile_handle_deregister, [&](StandIn& world) {
    if (!world.cufile().close(handle)) world.report("cuFile does not know a handle");
    return 0;
  });
}
void buffer_deregister(int, void* base) {
  called(Call::cufile_buffer_deregister, [&](StandIn& world) {
    if (!world.cufile().remove(base)) world.report("cuFile does not know a buffer");
    return 0;
  });
}

// Files are open for whole pages of 4096 bytes; cuFile lifts that.
class Pages {
 public:
  Pages(int file, std::int64_t offset, std::size_t bytes)
      : file_(file),
        offset_(offset),
        bytes_(bytes),
        size_(file_aligned(bytes)),
        pages_(static_cast<std::byte*>(std::aligned_alloc(file_alignment, size_)), std::free) {
    std::memset(pages_.get(), 0, size_);
  }

  std::int64_t read(std::byte* to) {
    const auto got = pread(file_, pages_.get(), size_, offset_);
    if (got > 0) std::memcpy(to, pages_.get(), bytes_);
    return got < 0 ? got : std::min(got, static_cast<std::int64_t>(bytes_));
  }
  std::int64_t write(const std::byte* from) {
    std::memcpy(pages_.get(), from, bytes_);
    const auto put = pwrite(file_, pages_.get(), size_, offset_);
    return put < 0 ? put : std::min(put, static_cast<std::int64_t>(bytes_));
  }

 private:
  const int file_;
  const std::int64_t offset_;
  const std::size_t bytes_, size_;
  const std::unique_ptr<std::byte, decltype(&std::free)> pages_;
};

// What `called` returns is a code; bytes go beside it.
template <class Move>
std::int64_t moved(Call call, int device, const void* memory, std::size_t bytes, void* handle,
                   Move&& move) {
  std::int64_t result = 0;
  const int code = called(call, [&](StandIn& world) {
    if (!world.memory().accessible(memory, bytes, device)) return cufile_invalid_value;
    const std::optional<int> file = world.cufile().file_of(handle);
    if (!file) return cufile_invalid_value;
    result = move(*file);
    return result < 0 ? errno : 0;
  });
  return code != 0 ? -code : result;
}
std::int64_t read(int device, void* handle, void* base, std::size_t bytes, std::int64_t file_offset,
                  std::int64_t at) {
  auto* const to = static_cast<std::byte*>(base) + at;
  return moved(Call::cufile_read, device, to, bytes, handle,
               [&](int file) { return Pages(file, file_offset, bytes).read(to); });
}
std::int64_t write(int device, void* handle, const void* base, std::size_t bytes,
                   std::int64_t file_offset, std::int64_t at) {
  const auto* const from = static_cast<const std::byte*>(base) + at;
  return moved(Call::cufile_write, device, from, bytes, handle,
               [&](int file) { return Pages(file, file_offset, bytes).write(from); });
}

}  // namespace

Result<std::string> find_fake_cufile() {
  if (StandIn::current().options().cufile) return std::string("1.0");
  return Status(Code::not_supported, "use_gds needs NVIDIA's cuFile: the stand-in has none");
}

Result<CufileApi> start_fake_cufile() {
  TESSERA_TRY(find_fake_cufile().status());
  return CufileApi{
      handle_register, buffer_register, handle_deregister, buffer_deregister, read, write};
}

}  // namespace tessera::test
