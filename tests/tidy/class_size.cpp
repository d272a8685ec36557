// SPDX-License-Identifier: Apache-2.0
// The heuristic: inside of a class, text up to a `;` or a `{` that has a `(` outside of template
// arguments, and no `=` before it, declares a function. A class is in a .cpp file that begins a
// line with a definition of one of its functions, in the folder of its header or below.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tests/tidy/rules.h"
#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

constexpr int functions_max = 35;
constexpr std::size_t sources_max = 3;

struct Class {
  std::string name;
  std::string header;
  int line = 0;
  int functions = 0;
};

bool declares_function(const std::string& text) {
  static const std::regex other(R"(^\s*(using|friend|static_assert|typedef)\b)");
  if (std::regex_search(text, other)) return false;
  int angles = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '=' && text.find("operator") == std::string::npos) return false;
    if (c == '<') ++angles;
    if (c == '>' && (i == 0 || text[i - 1] != '-')) --angles;
    if (c == '(' && (angles <= 0 || text.find("operator") != std::string::npos)) {
      return text.compare(i, 2, "(*") != 0;
    }
  }
  return false;
}

class ClassScanner {
 public:
  explicit ClassScanner(const SourceFile& file)
      : path_(file.path), text_(without_comments_and_literals(file.text)) {}

  std::vector<Class> scan() {
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '#') i = std::min(text_.find('\n', i), text_.size());
      if (i == text_.size()) break;
      if (text_[i] == '(') ++parentheses_;
      if (text_[i] == ')') --parentheses_;
      if (parentheses_ > 0) continue;
      if (text_[i] == '{') open(i);
      if (text_[i] == '}') close(i);
      if (text_[i] == ';') end_declaration(i);
    }
    return std::move(classes_);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  std::string head(std::size_t end) const {
    static const std::regex label(R"(\b(public|protected|private)\s*:(?!:))");
    return std::regex_replace(text_.substr(head_, end - head_), label, " ");
  }

  void count(std::size_t end) {
    if (open_.empty() || open_.back() == none) return;
    if (declares_function(head(end))) ++classes_[open_.back()].functions;
  }

  void end_declaration(std::size_t at) {
    count(at);
    head_ = at + 1;
  }

  void open(std::size_t at) {
    static const std::regex type(R"((?:^|[\s>])(?:class|struct)\s+((?:\w+::)*\w+)\s*)"
                                 R"((?:final)?\s*(?::[^:].*)?$)");
    const std::string before = std::regex_replace(head(at), std::regex(R"(\s+)"), " ");
    std::smatch match;
    const bool is_enum = before.find("enum ") != std::string::npos;
    if (!is_enum && std::regex_search(before, match, type)) {
      const std::string name = match[1].str().substr(match[1].str().rfind(':') + 1);
      open_.push_back(classes_.size());
      classes_.push_back({name, path_, line_at(text_, at), 0});
    } else {
      count(at);
      open_.push_back(none);
    }
    head_ = at + 1;
  }

  void close(std::size_t at) {
    if (!open_.empty()) open_.pop_back();
    head_ = at + 1;
  }

  std::string path_;
  std::string text_;
  int parentheses_ = 0;
  std::size_t head_ = 0;
  std::vector<std::size_t> open_;  // places in classes_; none: another brace
  std::vector<Class> classes_;
};

using Sources = std::map<std::string, std::set<std::string>>;  // class -> paths of .cpp files

void add_definitions(const SourceFile& file, Sources& sources) {
  static const std::regex definition(R"(^[A-Za-z][^=;]*?\b(\w+)::(?:~?\w+|operator[^\s(]+)\()");
  for (const std::string& line : lines_of(without_comments_and_literals(file.text))) {
    std::smatch match;
    if (std::regex_search(line, match, definition)) sources[match[1]].insert(file.path);
  }
}

/// Of a public header the whole part that it belongs to.
std::string folder_of(const std::string& header) {
  const std::size_t include = header.find("include/tessera/");
  return header.substr(0, include != std::string::npos ? include : header.rfind('/') + 1);
}

}  // namespace

Findings check_class_sizes(const std::vector<SourceFile>& tree,
                           const std::map<std::string, std::string>& reasons) {
  Sources sources;
  std::vector<Class> classes;
  for (const SourceFile& file : tree) {
    if (!file.is_code() || file.in("tests/")) continue;
    if (file.ends_with(".cpp")) add_definitions(file, sources);
    const std::vector<Class> found = ClassScanner(file).scan();
    classes.insert(classes.end(), found.begin(), found.end());
  }
  Findings findings;
  std::set<std::string> large;
  for (const Class& c : classes) {
    const auto count = static_cast<std::size_t>(std::count_if(
        sources[c.name].begin(), sources[c.name].end(),
        [&](const std::string& path) { return path.starts_with(folder_of(c.header)); }));
    if (c.functions <= functions_max && count <= sources_max) continue;
    large.insert(c.name);
    if (reasons.contains(c.name)) continue;
    findings.push_back({c.header, c.line,
                        c.name + " has " + std::to_string(c.functions) + " functions in " +
                            std::to_string(count) + " .cpp files; the limits are " +
                            std::to_string(functions_max) + " and " + std::to_string(sources_max) +
                            ": split it, or write the reason into tests/tidy/large_classes.txt"});
  }
  for (const auto& [name, reason] : reasons) {
    if (large.contains(name) && !reason.empty()) continue;
    findings.push_back({"tests/tidy/large_classes.txt", 0, name + " needs no reason, or has none"});
  }
  return findings;
}

}  // namespace tidy
