// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/json_stream.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::exchange {

Status JsonStream::broken() const {
  return source_.error(Code::corrupt, fmt::format("it is no JSON at byte {}", offset()));
}

Status JsonStream::cut() {
  cut_off_ = true;
  return source_.error(Code::corrupt, "it ends in the middle");
}

Status JsonStream::lacks_list(std::string_view name) const {
  return source_.error(Code::invalid_argument, fmt::format("it has no list \"{}\"", name));
}

Status JsonStream::fill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
  passed_ += static_cast<std::int64_t>(at_);
  filled_ -= at_;
  at_ = 0;
  if (filled_ == buffer_.size()) {
    if (buffer_.size() >= value_max_) {
      return source_.error(
          Code::out_of_memory,
          fmt::format("a value at byte {} has more than {} MiB", offset(), value_max_ >> 20));
    }
    buffer_.resize(2 * buffer_.size());
  }
  while (filled_ < buffer_.size() && !ended_) {
    TESSERA_ASSIGN(const std::size_t size, source_.read(std::span(buffer_).subspan(filled_)));
    filled_ += size;
    ended_ = size == 0;
  }
  return {};
}

Result<char> JsonStream::peek() {
  while (true) {
    JsonCursor cursor(rest());
    const char next = cursor.peek();
    at_ = static_cast<std::size_t>(cursor.at() - buffer_.data());
    if (next != 0 || ended_) return next;
    TESSERA_TRY(fill());
  }
}

Result<bool> JsonStream::next_line() {
  while (true) {
    const std::size_t end = rest().find('\n');
    if (end != std::string_view::npos) {
      at_ += end + 1;
      return true;
    }
    at_ = filled_;
    if (ended_) return false;
    TESSERA_TRY(fill());
  }
}

Result<std::string> JsonStream::key() {
  std::string key;
  TESSERA_TRY(value([&](JsonCursor& at) {
    std::string_view raw;
    if (!at.string(raw)) return false;
    key = raw;
    return at.take(':');
  }));
  return key;
}

}  // namespace tessera::exchange
