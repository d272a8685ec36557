// SPDX-License-Identifier: Apache-2.0
// A file system in memory that stops, fails or loses power wherever a test wants it to.
//
// The idea: every byte and every call is an event. What was not synchronised is kept apart, so that
// a loss of power can take it away, or a part of it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/files/file_system.h"
#include "tests/random.h"

namespace tessera::test {

class MemoryFiles final : public FileSystem {
 public:
  static constexpr std::int64_t never = -1;

  /// Event `at` and, if `for_good`, all later ones fail: bytes before it are written.
  void fail(std::int64_t at, bool for_good) {
    fail_at_ = at;
    for_good_ = for_good;
    events_ = 0;
  }
  std::int64_t events() const { return events_; }

  /// The machine starts again: of what was not synchronised anything may be left.
  void lose_power(Random& random) {
    Names left = durable_;
    for (const auto& [path, inode] : names_) {
      if (random.chance(50)) left[path] = inode;
    }
    for (const auto& [path, inode] : durable_) {
      if (!names_.contains(path) && random.chance(50)) left.erase(path);
    }
    for (auto& [path, inode] : left) {
      const std::size_t synced = inode->synced;
      if (inode->bytes.size() <= synced) continue;
      const auto more = static_cast<std::int64_t>(inode->bytes.size() - synced + 1);
      const std::size_t kept = synced + static_cast<std::size_t>(random.below(more));
      if (random.chance(50)) std::fill(inode->bytes.begin() + synced, inode->bytes.end(), '\0');
      inode->bytes.resize(kept);
      inode->synced = kept;
    }
    names_ = durable_ = std::move(left);
  }
  /// For tests that damage files.
  std::string& bytes(const std::string& path) { return names_.at(path)->bytes; }
  std::vector<std::string> paths() const {
    std::vector<std::string> all;
    for (const auto& [path, inode] : names_) all.push_back(path);
    return all;
  }
  MemoryFiles copy() const {
    MemoryFiles other;
    std::map<const Inode*, std::shared_ptr<Inode>> copies;
    for (const auto* from : {&names_, &durable_}) {
      Names& to = from == &names_ ? other.names_ : other.durable_;
      for (const auto& [path, inode] : *from) {
        auto& copied = copies[inode.get()];
        if (!copied) copied = std::make_shared<Inode>(*inode);
        to[path] = copied;
      }
    }
    other.folders_ = folders_;
    return other;
  }

  Status make_folder(const std::string& path) override {
    TESSERA_TRY(event(path));
    folders_.insert(path);
    return {};
  }
  Result<std::unique_ptr<WrittenFile>> create(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  bool exists(const std::string& path) override {
    return names_.contains(path) || folders_.contains(path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    TESSERA_TRY(event(from));
    names_[to] = names_.at(from);
    names_.erase(from);
    return {};
  }
  Status sync_folder(const std::string& path) override {
    TESSERA_TRY(event(path));
    std::erase_if(durable_, [&](const auto& entry) { return folder_of(entry.first) == path; });
    for (const auto& [name, inode] : names_) {
      if (folder_of(name) == path) durable_[name] = inode;
    }
    return {};
  }
  Status remove(const std::string& path) override {
    TESSERA_TRY(event(path));
    names_.erase(path);
    folders_.erase(path);
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    std::set<std::string> found;
    for (const auto& [name, inode] : names_) found.insert(below(path, name));
    for (const std::string& name : folders_) found.insert(below(path, name));
    found.erase("");
    return std::vector<std::string>(found.begin(), found.end());
  }

 private:
  struct Inode {
    std::string bytes;
    std::size_t synced = 0;  // so many bytes are on the disk
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  class Written;
  class Readable;

  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
  // The first name of `path` below `folder`.
  static std::string below(const std::string& folder, const std::string& path) {
    if (!path.starts_with(folder + "/")) return "";
    const std::string rest = path.substr(folder.size() + 1);
    return rest.substr(0, rest.find('/'));
  }
  bool fails_now() {
    const std::int64_t now = events_++;
    return now == fail_at_ || (for_good_ && fail_at_ != never && now > fail_at_);
  }
  Status event(const std::string& path) {
    return fails_now() ? Status(Code::io_error, path + ": planted failure") : Status{};
  }

  Names names_;    // as programs see them
  Names durable_;  // what is on the disk
  std::set<std::string> folders_;
  std::int64_t events_ = 0;
  std::int64_t fail_at_ = never;
  bool for_good_ = false;
};

class MemoryFiles::Written final : public WrittenFile {
 public:
  Written(MemoryFiles& files, std::string path, std::shared_ptr<Inode> inode)
      : files_(files), path_(std::move(path)), inode_(std::move(inode)) {}

  Status write(std::span<const std::byte> bytes) override {
    for (const std::byte b : bytes) {
      TESSERA_TRY(files_.event(path_));
      inode_->bytes.push_back(static_cast<char>(b));
    }
    return {};
  }
  Status sync() override {
    TESSERA_TRY(files_.event(path_));
    inode_->synced = inode_->bytes.size();
    return {};
  }

 private:
  MemoryFiles& files_;
  const std::string path_;
  const std::shared_ptr<Inode> inode_;
};

class MemoryFiles::Readable final : public ReadableFile {
 public:
  explicit Readable(std::shared_ptr<Inode> inode) : inode_(std::move(inode)) {}

  Bytes size() const override { return Bytes{static_cast<std::int64_t>(inode_->bytes.size())}; }
  Status read(std::int64_t offset, std::span<std::byte> into) const override {
    const auto begin = static_cast<std::size_t>(offset);
    if (begin + into.size() > inode_->bytes.size()) return Status(Code::io_error, "beyond the end");
    const auto bytes = std::as_bytes(std::span(inode_->bytes)).subspan(begin, into.size());
    std::copy(bytes.begin(), bytes.end(), into.begin());
    return {};
  }

 private:
  const std::shared_ptr<Inode> inode_;
};

inline Result<std::unique_ptr<WrittenFile>> MemoryFiles::create(const std::string& path) {
  TESSERA_TRY(event(path));
  auto inode = names_[path] = std::make_shared<Inode>();
  return std::unique_ptr<WrittenFile>(std::make_unique<Written>(*this, path, std::move(inode)));
}

inline Result<std::unique_ptr<ReadableFile>> MemoryFiles::open(const std::string& path) {
  const auto found = names_.find(path);
  if (found == names_.end()) return Status(Code::io_error, path + ": there is no such file");
  return std::unique_ptr<ReadableFile>(std::make_unique<Readable>(found->second));
}

}  // namespace tessera::test
