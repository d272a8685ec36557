// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/options/run_file.h"

namespace tessera::cli {
namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '+' || c == '.';
}

class RunFileReader {
 public:
  RunFileReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Result<std::vector<RunFileEntry>> read() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // the mark of an editor on Windows
    for (skip(true); at_ < text_.size(); skip(true)) {
      TESSERA_TRY(text_[at_] == '[' ? section() : entry());
      skip(false);
      if (at_ < text_.size() && text_[at_] != '\n') return failed("something follows the value");
    }
    return std::move(entries_);
  }

 private:
  Status failed(const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}: line {}: {}", source_, line_, what));
  }

  // Spaces and comments, and perhaps line feeds.
  void skip(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_ == text_.size()) return;
      }
      if (text_[at_] == '\n') {
        if (!lines) return;
        ++line_;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  std::string word() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_bare(text_[at_])) ++at_;
    return std::string(text_.substr(first, at_ - first));
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status section() {
    take('[');
    section_ = word();
    if (section_.empty() || !take(']')) return failed("a section is written [name]");
    entries_.push_back({.section = section_, .line = line_});
    return {};
  }

  Status entry() {
    RunFileEntry made{.section = section_, .line = line_};
    made.key = word();
    if (made.key.empty()) return failed("a key is missing: write key = value");
    if (made.key.find('.') != std::string::npos) return failed("keys have no dots: " + made.key);
    skip(false);
    if (!take('=')) return failed(fmt::format("{}: write {} = value", made.key, made.key));
    skip(false);
    std::string known = made.key;
    std::replace(known.begin(), known.end(), '-', '_');
    if (!keys_.insert(known).second) return failed(made.key + " is there twice");
    if (take('[')) {
      TESSERA_TRY(array(made));
    } else {
      TESSERA_ASSIGN(const std::string only, value());
      made.values = {only};
    }
    entries_.push_back(std::move(made));
    return {};
  }

  Status array(RunFileEntry& into) {
    for (skip(true); !take(']'); skip(true)) {
      TESSERA_ASSIGN(const std::string one, value());
      into.values.push_back(one);
      skip(true);
      if (take(',')) continue;
      if (at_ >= text_.size() || text_[at_] != ']') return failed("an array ends with ]");
    }
    return {};
  }

  Result<std::string> value() {
    if (take('\'')) {
      const std::size_t end = text_.find_first_of("'\n", at_);
      if (end == std::string_view::npos || text_[end] != '\'') return failed("a text has no end");
      const std::string only(text_.substr(at_, end - at_));
      at_ = end + 1;
      return checked(only);
    }
    if (take('"')) {
      TESSERA_ASSIGN(const std::string text, quoted());
      return checked(text);
    }
    const std::string bare = word();
    const bool number = !bare.empty() && (bare[0] == '-' || bare[0] == '+' || bare[0] == '.' ||
                                          (bare[0] >= '0' && bare[0] <= '9'));
    if (number || bare == "true" || bare == "false") return bare;
    return failed(bare.empty() ? "a value is missing"
                               : fmt::format("write texts in quotes: \"{}\"", bare));
  }

  // Names of files would end where a zero byte stands.
  Result<std::string> checked(const std::string& text) const {
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n';
    };
    if (std::none_of(text.begin(), text.end(), is_control)) return text;
    return failed("a text has a control character");
  }

  Result<std::string> quoted() {
    std::string out;
    while (at_ < text_.size() && text_[at_] != '\n') {
      const char c = text_[at_++];
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      constexpr std::string_view names = "\\\"nt";
      const std::size_t which = at_ < text_.size() ? names.find(text_[at_++]) : names.npos;
      if (which == names.npos) return failed("of escapes only \\\\, \\\", \\n and \\t are known");
      out += "\\\"\n\t"[which];
    }
    return failed("a text has no end");
  }

  const std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string section_;
  std::set<std::string> keys_;
  std::vector<RunFileEntry> entries_;
};

}  // namespace

Result<std::vector<RunFileEntry>> parse_run_file(std::string_view text, const std::string& source) {
  return RunFileReader(text, source).read();
}

}  // namespace tessera::cli
