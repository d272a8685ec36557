// SPDX-License-Identifier: Apache-2.0
#include "storage/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tessera/storage/trace_reader.h"

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

void sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);  // without it only the name could be lost, by a power failure
  ::close(descriptor);
}

/// What SQLite keeps beside a database that is being written.
constexpr std::array companions = {"-wal", "-shm", "-journal"};

bool has_companions(const std::string& name) {
  std::error_code ignored;
  return std::any_of(companions.begin(), companions.end(), [&](const char* ending) {
    return std::filesystem::exists(name + ending, ignored);
  });
}

void remove_companions(const std::string& name) {
  for (const char* ending : companions) ::unlink((name + ending).c_str());
}

Status cannot_write(const std::string& name, const std::string& why) {
  return {Code::io_error, fmt::format("Cannot write a trace to \"{}\": {}.", name, why)};
}

constexpr int partial_max = 100;

}  // namespace

Result<std::optional<OwnedFile>> OwnedFile::open(const std::string& name) {
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode_t{0666});
  if (descriptor < 0) return cannot_write(name, reason_of(errno));
  OwnedFile file;
  file.name_ = name;
  file.descriptor_ = descriptor;
  if (!lock(descriptor) || !file.named()) return std::optional<OwnedFile>();
  return std::optional<OwnedFile>(std::move(file));
}

// SQLite must not find what it left beside an earlier file of this name.
Status OwnedFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) return cannot_write(name_, reason_of(errno));
  remove_companions(name_);
  return {};
}

Result<OwnedFile> OwnedFile::beside(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || path.ends_with('/') || std::filesystem::is_directory(path, ignored)) {
    return cannot_write(path, "it is a directory; add a file name");
  }
  if (std::filesystem::is_other(path, ignored)) {
    return cannot_write(path, "it is a pipe or a device, which a file would take the place of");
  }
  for (int k = 1; k <= partial_max; ++k) {
    const std::string name = k == 1 ? path + ".partial" : fmt::format("{}.{}.partial", path, k);
    const bool there = std::filesystem::exists(name, ignored);
    // Somebody removed it from under a recording that goes on.
    if (!there && has_companions(name)) continue;
    TESSERA_ASSIGN(std::optional<OwnedFile> file, open(name));
    if (!file) return cannot_write(name, "another recording is writing it");
    // Whoever was stopped wants what was recorded, most of all if the run is started again.
    if (there && TraceReader::open(name).ok()) continue;
    TESSERA_TRY(file->clear());
    return std::move(*file);
  }
  return cannot_write(path, fmt::format("{} recordings that were stopped lie beside it; recover "
                                        "them with `tessera trace recover`, or remove them",
                                        partial_max));
}

Result<OwnedFile> OwnedFile::replace(const std::string& name) {
  TESSERA_ASSIGN(std::optional<OwnedFile> file, open(name));
  if (!file) return cannot_write(name, "another recording is writing it");
  TESSERA_TRY(file->clear());
  return std::move(*file);
}

/// Others may have renamed or removed it, and made another of its name.
bool OwnedFile::named() const {
  struct stat opened = {}, there = {};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(name_.c_str(), &there) == 0 &&
         opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
}

OwnedFile& OwnedFile::operator=(OwnedFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

OwnedFile::~OwnedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OwnedFile::remove() {
  if (!named()) return;
  ::unlink(name_.c_str());
  remove_companions(name_);
}

Status OwnedFile::move_to(const std::string& path) {
  if (::fsync(descriptor_) != 0) return cannot_write(name_, reason_of(errno));
  if (!named()) return cannot_write(path, fmt::format("\"{}\" was removed or replaced", name_));
  // What SQLite has beside a recording that was called so would be read as a part of this file.
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) remove_companions(path);
  if (std::rename(name_.c_str(), path.c_str()) != 0) {
    const int error = errno;
    return {Code::io_error,
            fmt::format("Cannot rename \"{}\" to \"{}\": {}.", name_, path, reason_of(error))};
  }
  name_ = path;
  sync_folder_of(path);
  return {};
}

}  // namespace tessera::storage
