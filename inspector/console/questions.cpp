// SPDX-License-Identifier: Apache-2.0
#include "inspector/console/questions.h"

#include <cctype>
#include <string_view>

// The assembler copies the manual of the CMake variable in, as the fonts (render/font_data.cpp).
__asm__(
    ".section .rodata\n"
    ".hidden tessera_questions\n.globl tessera_questions\ntessera_questions:\n"
    ".incbin \"" TESSERA_QUESTIONS
    "\"\n"
    ".hidden tessera_questions_end\n.globl tessera_questions_end\ntessera_questions_end:\n"
    ".byte 0\n.text\n");

extern "C" {
extern const char tessera_questions[], tessera_questions_end[];
}

namespace tessera::inspector {
namespace {

std::vector<Question> read_questions(std::string_view manual) {
  constexpr std::string_view chapter = "\n## Questions\n", title = "\n### ", sql = "\n```sql\n",
                             end = "\n```";
  std::vector<Question> found;
  std::size_t at = manual.find(chapter);
  while (at != std::string_view::npos && (at = manual.find(title, at)) != std::string_view::npos) {
    at += title.size();
    const std::size_t line_end = manual.find('\n', at), begin = manual.find(sql, at);
    if (begin == std::string_view::npos) break;
    const std::size_t from = begin + sql.size(), to = manual.find(end, from);
    found.push_back({std::string(manual.substr(at, line_end - at)),
                     std::string(manual.substr(from, to - from))});
    at = to;
  }
  return found;
}

// Each number after `before` becomes `number`.
std::string with_number(const std::string& sql, std::string_view before, std::int64_t number) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at; (at = sql.find(before, done)) != std::string::npos;) {
    at += before.size();
    result.append(sql, done, at - done);
    done = at;
    while (done < sql.size() && std::isdigit(static_cast<unsigned char>(sql[done])) != 0) ++done;
    if (done > at) result += std::to_string(number);
  }
  return result.append(sql, done);
}

}  // namespace

const std::vector<Question>& questions() {
  static const std::vector<Question> all =
      read_questions({tessera_questions, tessera_questions_end});
  return all;
}

std::string asked_of(const Question& question, Rank rank, std::int32_t step) {
  constexpr int rows_read = 200;
  const std::string sql = with_number(question.sql, "rank = ", rank);
  return with_number(with_number(sql, "step = ", step), "LIMIT ", rows_read);
}

}  // namespace tessera::inspector
