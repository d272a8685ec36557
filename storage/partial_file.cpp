// SPDX-License-Identifier: Apache-2.0
#include "storage/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tessera::storage {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

/// False: another recording holds it. File systems without such locks count as unlocked.
bool lock(int descriptor) {
#ifdef F_OFD_SETLK
  // Far behind every byte that SQLite locks, and owned by the open file rather than the process, so
  // that two recordings of one process exclude each other as well.
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = std::int64_t{1} << 62;
  range.l_len = 1;
  if (::fcntl(descriptor, F_OFD_SETLK, &range) != 0) return errno != EAGAIN && errno != EACCES;
#endif
  return true;
}

/// The file may have been renamed or removed by its last owner before we got the lock.
bool still_named(int descriptor, const std::string& path) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

void sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);  // without it only the name could be lost, by a power failure
  ::close(descriptor);
}

}  // namespace

Result<PartialFile> PartialFile::create(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || path.ends_with('/') || std::filesystem::is_directory(path, ignored)) {
    return Status(
        Code::io_error,
        fmt::format("Cannot write a trace to \"{}\": it is a directory; add a file name.", path));
  }
  PartialFile file;
  file.path_ = path;
  file.partial_path_ = path + ".partial";
  const int descriptor =
      ::open(file.partial_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode_t{0666});
  if (descriptor < 0) {
    return Status(Code::io_error, fmt::format("Cannot write a trace to \"{}\": {}.",
                                              file.partial_path_, reason_of(errno)));
  }
  if (!lock(descriptor) || !still_named(descriptor, file.partial_path_)) {
    ::close(descriptor);
    return Status(Code::io_error,
                  fmt::format("Cannot write a trace to \"{}\": another recording is writing it.",
                              file.partial_path_));
  }
  file.descriptor_ = descriptor;
  if (::ftruncate(descriptor, 0) != 0) {
    return Status(Code::io_error,
                  fmt::format("Cannot empty \"{}\": {}.", file.partial_path_, reason_of(errno)));
  }
  return file;
}

PartialFile& PartialFile::operator=(PartialFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(partial_path_, other.partial_path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

PartialFile::~PartialFile() { remove(); }

void PartialFile::remove() {
  if (descriptor_ < 0) return;
  ::unlink(partial_path_.c_str());
  ::close(descriptor_);
  descriptor_ = -1;
}

Status PartialFile::publish() {
  TESSERA_ASSERT(descriptor_ >= 0, "a partial file is published once");
  const char* doing = "write";
  int failed = ::fsync(descriptor_);
  if (failed == 0) {
    doing = "rename";
    failed = std::rename(partial_path_.c_str(), path_.c_str());
  }
  if (failed != 0) {
    const int error = errno;
    remove();
    return {Code::io_error, fmt::format("Cannot {} \"{}\" to \"{}\": {}.", doing, partial_path_,
                                        path_, reason_of(error))};
  }
  ::close(descriptor_);
  descriptor_ = -1;
  sync_folder_of(path_);
  return {};
}

}  // namespace tessera::storage
