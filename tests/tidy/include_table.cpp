// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/include_table.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

#include "tests/tidy/source_text.h"

namespace tidy {
namespace {

using Names = std::vector<std::string>;

Names words_of(const std::string& text) {
  std::istringstream stream(text);
  Names words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Names columns_of(const std::string& line) {
  Names columns;
  std::istringstream stream(line);
  for (std::string column; std::getline(stream, column, '|');) columns.push_back(column);
  return columns;
}

/// A word that was given a meaning ("text-libraries = fmt/ nlohmann/") stands for it.
Names replaced(const Names& words, const std::map<std::string, Names>& meanings) {
  Names result;
  for (const std::string& word : words) {
    const auto meaning = meanings.find(word);
    if (meaning == meanings.end()) {
      result.push_back(word);
    } else {
      result.insert(result.end(), meaning->second.begin(), meaning->second.end());
    }
  }
  return result;
}

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The path of what a quoted include names; "" if no such public header exists.
std::string path_of(const std::string& file, const std::string& name,
                    const std::set<std::string>& public_headers) {
  // Examples are as their users would write them: a name alone is a file beside.
  const bool beside = file.starts_with("examples/") && name.find('/') == std::string::npos;
  if (beside) return file.substr(0, file.rfind('/') + 1) + name;
  if (!name.starts_with("tessera/")) return name;
  for (const std::string& path : public_headers) {
    if (path.ends_with("/include/" + name)) return path;
  }
  return "";
}

/// "" or what is wrong.
std::string judge(const IncludeTable& table, const std::string& file, const std::string& name,
                  const std::set<std::string>& public_headers) {
  const IncludeTable::Row& row = *table.row_of(file);
  const std::string path = path_of(file, name, public_headers);
  const IncludeTable::Row* const target = path.empty() ? nullptr : table.row_of(path);
  if (target == nullptr) return "no folder of the include table has it";
  const bool allowed = target->folder == row.folder || contains(row.own, "*") ||
                       contains(row.own, path) || contains(row.own, target->folder);
  return allowed ? "" : row.folder + " may not include " + target->folder;
}

std::string judge_library(const IncludeTable::Row& row, const std::string& name) {
  static const std::regex standard(R"([a-z_0-9]+)");
  const bool allowed =
      std::regex_match(name, standard) ||
      std::any_of(row.libraries.begin(), row.libraries.end(), [&](const std::string& library) {
        return library == "*" || name.starts_with(library);
      });
  return allowed ? "" : row.folder + " may not include it";
}

/// Depth first: a row that is reached while it is still open closes a circle.
class CircleSearch {
 public:
  explicit CircleSearch(const IncludeTable& table) : table_(table) {}

  Findings run() {
    for (const IncludeTable::Row& row : table_.rows) visit(row);
    return std::move(findings_);
  }

 private:
  void visit(const IncludeTable::Row& row) {
    if (!visited_.insert(row.folder).second) return;
    open_.push_back(row.folder);
    for (const std::string& name : row.own) {
      const IncludeTable::Row* const next = name == "*" ? nullptr : table_.row_of(name);
      if (next == nullptr || next == &row) continue;
      const auto found = std::find(open_.begin(), open_.end(), next->folder);
      if (found != open_.end()) report(row, found);
      visit(*next);
    }
    open_.pop_back();
  }

  void report(const IncludeTable::Row& row, Names::const_iterator first) {
    std::string circle;
    for (; first != open_.end(); ++first) circle += *first + " ";
    findings_.push_back({table_.path, row.line, "folders include each other: " + circle});
  }

  const IncludeTable& table_;
  std::set<std::string> visited_;
  Names open_;
  Findings findings_;
};

}  // namespace

const IncludeTable::Row* IncludeTable::row_of(const std::string& file) const {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    const bool longer = best == nullptr || row.folder.size() > best->folder.size();
    if (file.starts_with(row.folder) && longer) best = &row;
  }
  return best;
}

IncludeTable read_include_table(const SourceFile& file, Findings& wrong) {
  IncludeTable table{file.path, {}};
  std::map<std::string, Names> meanings;
  const Names lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i].starts_with('#')) continue;
    const int number = static_cast<int>(i + 1);
    const std::size_t equals = lines[i].find(" = ");
    if (equals != std::string::npos) {
      meanings[lines[i].substr(0, equals)] = words_of(lines[i].substr(equals + 3));
      continue;
    }
    const Names columns = columns_of(lines[i]);
    const Names folder = columns.empty() ? Names{} : words_of(columns[0]);
    if (columns.size() != 4 || folder.size() != 1 || !folder[0].ends_with('/')) {
      wrong.push_back({file.path, number, "expected 'folder/ | folders | libraries | purpose'"});
      continue;
    }
    table.rows.push_back({folder[0], replaced(words_of(columns[1]), meanings),
                          replaced(words_of(columns[2]), meanings), number});
  }
  return table;
}

Findings check_includes(const SourceFile& file, const IncludeTable& table,
                        const std::set<std::string>& public_headers) {
  const IncludeTable::Row* const row = table.row_of(file.path);
  if (row == nullptr) return {{file.path, 0, "this folder has no line in " + table.path}};
  Findings findings;
  const Names lines = lines_of(without_comments(file.text));
  static const std::regex include(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(lines[i], match, include)) continue;
    const std::string problem = match[1] == "\"" ? judge(table, file.path, match[2], public_headers)
                                                 : judge_library(*row, match[2]);
    if (!problem.empty()) {
      findings.push_back({file.path, static_cast<int>(i + 1), match[2].str() + ": " + problem});
    }
  }
  return findings;
}

Findings check_include_table(const IncludeTable& table, const std::vector<SourceFile>& tree) {
  const auto exists = [&](const std::string& name) {
    return std::any_of(tree.begin(), tree.end(),
                       [&](const SourceFile& file) { return file.in(name); });
  };
  Findings findings = CircleSearch(table).run();
  for (const IncludeTable::Row& row : table.rows) {
    if (!exists(row.folder)) findings.push_back({table.path, row.line, row.folder + " is empty"});
    for (const std::string& name : row.own) {
      const IncludeTable::Row* const named = table.row_of(name);
      const bool is_row = named != nullptr && named->folder == name;
      if (name == "*" || is_row || (!name.ends_with('/') && exists(name))) continue;
      findings.push_back({table.path, row.line, name + " is neither a line's folder nor a file"});
    }
  }
  return findings;
}

}  // namespace tidy
