// SPDX-License-Identifier: Apache-2.0
// The members of one option struct, listed once.
//
//   static const auto list = OptionList<Colours>("Colours", {"paint"})
//       .add(&Colours::red, {.name = "red", .help = "How much of it", .most = 255});
//
// The idea: the type of a member decides the form of its value (OptionForm), the list all else.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/text/named_once.h"
#include "tessera/assert.h"
#include "tessera/option.h"
#include "tessera/types.h"

namespace tessera {

/// How a member of type T is an OptionValue. `about` takes what follows from the type; `get` and
/// `set` may rely on it. What reaches `set` was checked; it fails where that cannot be enough.
template <class T>
struct OptionForm;

template <>
struct OptionForm<bool> {
  static void describe(Option& about) { about.kind = OptionKind::flag; }
  static OptionValue get(bool value, const Option&) { return value; }
  static Status set(bool& value, const OptionValue& given, const Option&) {
    return value = std::get<bool>(given), Status();
  }
};

template <class T>
requires std::is_integral_v<T>
struct OptionForm<T> {
  static void describe(Option& about) {
    about.kind = OptionKind::integer;
    about.most = std::min(about.most, static_cast<double>(std::numeric_limits<T>::max()));
  }
  static OptionValue get(T value, const Option&) { return static_cast<std::int64_t>(value); }
  static Status set(T& value, const OptionValue& given, const Option&) {
    return value = static_cast<T>(std::get<std::int64_t>(given)), Status();
  }
};

template <class Tag>
struct OptionForm<Quantity<Tag>> {
  static void describe(Option& about) { about.kind = OptionKind::integer; }
  static OptionValue get(Quantity<Tag> value, const Option&) { return value.value; }
  static Status set(Quantity<Tag>& value, const OptionValue& given, const Option&) {
    return value = Quantity<Tag>{std::get<std::int64_t>(given)}, Status();
  }
};

template <class T>
requires std::is_floating_point_v<T>
struct OptionForm<T> {
  static void describe(Option& about) {
    about.kind = OptionKind::number;
    about.most = std::min(about.most, static_cast<double>(std::numeric_limits<T>::max()));
  }
  static OptionValue get(T value, const Option&) { return static_cast<double>(value); }
  static Status set(T& value, const OptionValue& given, const Option& about) {
    const double number = std::get<double>(given);
    value = static_cast<T>(number);
    if (value != 0 || number == 0) return {};
    return Status(Code::invalid_argument,
                  std::string(about.name) + ": what is so near to 0 would be taken as 0");
  }
};

/// Its words are those of the enumerators, in their order.
template <class T>
requires std::is_enum_v<T>
struct OptionForm<T> {
  static void describe(Option& about) { about.kind = OptionKind::word; }
  static OptionValue get(T value, const Option& about) {
    const auto place = static_cast<std::size_t>(value);
    TESSERA_ASSERT(place < about.words.size(), "every enumerator has a word");
    return about.words[place];
  }
  static Status set(T& value, const OptionValue& given, const Option& about) {
    const auto word =
        std::find(about.words.begin(), about.words.end(), std::get<std::string>(given));
    TESSERA_ASSERT(word != about.words.end(), "words are checked before");
    return value = static_cast<T>(word - about.words.begin()), Status();
  }
};

template <>
struct OptionForm<DType> {
  static constexpr DType known[] = {DType::float32, DType::bfloat16, DType::float16};

  static void describe(Option& about) {
    about.kind = OptionKind::word;
    for (const DType dtype : known) about.words.emplace_back(name_of(dtype));
  }
  static OptionValue get(DType value, const Option&) { return std::string(name_of(value)); }
  static Status set(DType& value, const OptionValue& given, const Option&) {
    for (const DType dtype : known) {
      if (name_of(dtype) == std::get<std::string>(given)) value = dtype;
    }
    return {};
  }
};

template <>
struct OptionForm<std::string> {
  static void describe(Option& about) { about.kind = OptionKind::text; }
  static OptionValue get(const std::string& value, const Option&) { return value; }
  static Status set(std::string& value, const OptionValue& given, const Option&) {
    return value = std::get<std::string>(given), Status();
  }
};

template <>
struct OptionForm<std::vector<std::string>> {
  static void describe(Option& about) { about.kind = OptionKind::list; }
  static OptionValue get(const std::vector<std::string>& value, const Option&) { return value; }
  static Status set(std::vector<std::string>& value, const OptionValue& given,
                    const Option& about) {
    value = std::get<std::vector<std::string>>(given);
    return check_named_once(flag_of(about), value);
  }
};

template <class T>
struct OptionForm<std::optional<T>> {
  static void describe(Option& about) {
    TESSERA_ASSERT(!about.unset.empty(), "there is a word for no value");
    OptionForm<T>::describe(about);
  }
  static OptionValue get(const std::optional<T>& value, const Option& about) {
    return value ? OptionForm<T>::get(*value, about) : OptionValue(about.unset);
  }
  static Status set(std::optional<T>& value, const OptionValue& given, const Option& about) {
    value.reset();
    if (given == OptionValue(about.unset)) return {};
    return OptionForm<T>::set(value.emplace(), given, about);
  }
};

template <class Struct>
class OptionList {
 public:
  OptionList(std::string title, std::vector<std::string> schemes)
      : family_{std::move(title), std::move(schemes), {}} {}

  /// `access`: a pointer to a member, or a function that returns a reference to one further inside.
  template <class Access>
  OptionList& add(Access access, Option about) {
    using Member = std::remove_cvref_t<decltype(std::invoke(access, std::declval<Struct&>()))>;
    using Form = OptionForm<Member>;
    Form::describe(about);
    const auto get = [access](const Struct& o, const Option& option) {
      return Form::get(std::invoke(access, o), option);
    };
    about.standard = get(Struct{}, about);
    family_.options.push_back(std::move(about));
    members_.push_back({get, [access](Struct& o, const OptionValue& given, const Option& option) {
                          return Form::set(std::invoke(access, o), given, option);
                        }});
    return *this;
  }

  const OptionFamily& family() const { return family_; }
  const std::vector<Option>& options() const { return family_.options; }

  /// By place in options().
  OptionValue get(const Struct& o, std::size_t place) const {
    return members_[place].get(o, family_.options[place]);
  }
  /// REQUIRES: `given` is what checked_option made of it.
  Status set(Struct& o, std::size_t place, const OptionValue& given) const {
    return members_[place].set(o, given, family_.options[place]);
  }

  /// Its place, or options().size().
  std::size_t find(std::string_view name) const {
    const auto found = std::find_if(family_.options.begin(), family_.options.end(),
                                    [&](const Option& option) { return option.name == name; });
    return static_cast<std::size_t>(found - family_.options.begin());
  }

 private:
  struct Member {
    std::function<OptionValue(const Struct&, const Option&)> get;
    std::function<Status(Struct&, const OptionValue&, const Option&)> set;
  };

  OptionFamily family_;
  std::vector<Member> members_;
};

}  // namespace tessera
