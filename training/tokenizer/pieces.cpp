// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/pieces.h"

#include <algorithm>

namespace tessera::tokens {

Piece Piece::part(std::size_t begin, std::size_t end) const {
  return {text.substr(begin, end - begin), std::clamp(head, begin, end) - begin};
}

void Piece::prepend(const std::string& what) {
  if (text.empty()) return;
  text = what + text;
  if (first()) head += what.size();
}

void Piece::replace(const Pattern& what, const std::string& content) {
  Piece out;
  const auto add = [&](const Piece& piece) {
    if (piece.head > 0) out.head = out.text.size() + piece.head;
    out.text += piece.text;
  };
  std::size_t at = 0;
  for (const auto& found : what.find(text)) {
    add(part(at, found.begin));
    add({content, found.end <= head ? content.size() : 0});
    at = found.end;
  }
  add(part(at, text.size()));
  *this = std::move(out);
}

std::vector<Piece> cut(const PreTokeniser& with, const std::vector<Piece>& pieces) {
  if (!with) return pieces;
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    for (Piece& one : with(piece)) {
      if (!one.text.empty()) out.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace tessera::tokens
