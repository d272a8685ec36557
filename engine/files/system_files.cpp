// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/files/file_system.h"

namespace tessera {
namespace {

Status failed(const std::string& path, const char* what, int error) {
  const char* const hint = error == ENOSPC || error == EDQUOT ? ": make room" : "";
  return Status(Code::io_error,
                fmt::format("{}: cannot be {}: {}{}", path, what, std::strerror(error), hint));
}

class Descriptor {
 public:
  Descriptor(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  const int fd_;
  const std::string path_;
};

class SystemWrittenFile final : public WrittenFile {
 public:
  SystemWrittenFile(int fd, const std::string& path) : file_(fd, path) {}

  Status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.fd(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed(file_.path(), "written", errno);
      if (written == 0) return failed(file_.path(), "written", ENOSPC);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }
  Status sync() override {
    return ::fsync(file_.fd()) == 0 ? Status{} : failed(file_.path(), "synchronised", errno);
  }

 private:
  const Descriptor file_;
};

class SystemReadableFile final : public ReadableFile {
 public:
  SystemReadableFile(int fd, const std::string& path, Bytes size) : file_(fd, path), size_(size) {}

  Bytes size() const override { return size_; }
  Status read(std::int64_t offset, std::span<std::byte> into) const override {
    while (!into.empty()) {
      const ssize_t got = ::pread(file_.fd(), into.data(), into.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed(file_.path(), "read", errno);
      if (got == 0) {
        return Status(Code::io_error, fmt::format("{}: ends at byte {}, {} more were expected",
                                                  file_.path(), offset, into.size()));
      }
      into = into.subspan(static_cast<std::size_t>(got));
      offset += got;
    }
    return {};
  }

 private:
  const Descriptor file_;
  const Bytes size_;
};

class SystemFiles final : public FileSystem {
 public:
  Status make_folder(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    return error ? failed(path, "made", error.value()) : Status{};
  }
  Result<std::unique_ptr<WrittenFile>> create(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return failed(path, "created", errno);
    return std::unique_ptr<WrittenFile>(std::make_unique<SystemWrittenFile>(fd, path));
  }
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed(path, "opened", errno);
    struct stat about {};
    const bool known = ::fstat(fd, &about) == 0;
    const int error = known ? EISDIR : errno;
    if (!known || !S_ISREG(about.st_mode)) {
      ::close(fd);
      return failed(path, "read", error);
    }
    return std::unique_ptr<ReadableFile>(
        std::make_unique<SystemReadableFile>(fd, path, Bytes{about.st_size}));
  }
  bool exists(const std::string& path) override {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? Status{} : failed(from, "renamed", errno);
  }
  Status sync_folder(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed(path, "opened", errno);
    const Descriptor folder(fd, path);
    // Some file systems have nothing to do and say so.
    if (::fsync(fd) == 0 || errno == EINVAL) return {};
    return failed(path, "synchronised", errno);
  }
  Status remove(const std::string& path) override {
    if (::remove(path.c_str()) == 0 || errno == ENOENT) return {};
    return failed(path, "removed", errno);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entries(path, error);
    for (; !error && entries != std::filesystem::directory_iterator{}; entries.increment(error)) {
      names.push_back(entries->path().filename().string());
    }
    if (error && error.value() != ENOENT) return failed(path, "listed", error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

FileSystem& system_files() {
  static SystemFiles files;
  return files;
}

Result<std::string> read_text(FileSystem& files, const std::string& path) {
  TESSERA_ASSIGN(const auto file, files.open(path));
  std::string text(static_cast<std::size_t>(file->size().value), '\0');
  TESSERA_TRY(file->read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Status write_text(FileSystem& files, const std::string& path, std::string_view text) {
  TESSERA_ASSIGN(const auto file, files.create(path));
  TESSERA_TRY(file->write(std::as_bytes(std::span(text))));
  return file->sync();
}

}  // namespace tessera
