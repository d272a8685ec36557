// SPDX-License-Identifier: Apache-2.0
#include "tests/wrap/trees.h"

namespace tessera::test {
namespace {

void check_refused(const Status& status, Code code, const std::string& hint) {
  INFO(status.message());
  CHECK(status.code() == code);
  CHECK(status.message().find(hint) != std::string::npos);
}

WrapPlan plan_of(const WrapContext& context, const WrapOptions& options = {}) {
  auto plan = context.plan(options);
  INFO(plan.status().message());
  REQUIRE(plan.ok());
  return std::move(plan).value();
}

}  // namespace

TEST_CASE("wrap makes units inside a scope and does nothing outside", "[wrap][context]") {
  const Model model = nested_sequential();
  WrapContext context(model);
  CHECK(context.wrap("0").ok());
  {
    const auto scope = context.enable_wrap();
    REQUIRE(scope.ok());
    CHECK(context.wrap("2.1").ok());
    CHECK(context.wrap("2").ok());
  }
  CHECK(context.wrap("1").ok());
  const WrapPlan plan = plan_of(context);
  CHECK(units(model, plan) == Names{"2", "2.1"});
  CHECK(parameter_names(model, unit_at(model, plan, "2")) == Names{"2.0.weight", "2.0.bias"});
}

TEST_CASE("wrap's settings beat the scope's, the module's own beat both", "[wrap][context]") {
  const Model model = nested_sequential();
  WrapContext context(model);
  REQUIRE(context.override_module("1", {.mixed_precision = false}).ok());
  const auto scope = context.enable_wrap({.mixed_precision = true, .reshard_after_forward = false});
  REQUIRE(scope.ok());
  REQUIRE(context.wrap("0").ok());
  REQUIRE(context.wrap("1", {.mixed_precision = true, .reshard_after_forward = true}).ok());
  REQUIRE(context.wrap("2", {.reshard_after_forward = true}).ok());
  const WrapPlan plan = plan_of(context);
  const auto settings = [&](const char* path) { return unit_at(model, plan, path).overrides; };
  CHECK(settings("0") == UnitOverrides{.mixed_precision = true, .reshard_after_forward = false});
  CHECK(settings("1") == UnitOverrides{.mixed_precision = false, .reshard_after_forward = true});
  CHECK(settings("2") == UnitOverrides{.mixed_precision = true, .reshard_after_forward = true});
  CHECK(settings("").empty());
}

TEST_CASE("the root can be wrapped by hand, last", "[wrap][context]") {
  const Model model = nested_sequential();
  WrapContext context(model);
  const auto scope = context.enable_wrap({.reshard_after_forward = false});
  REQUIRE(context.wrap("0").ok());
  REQUIRE(context.wrap("").ok());
  const WrapPlan plan = plan_of(context);
  CHECK(plan.units.size() == 2);
  CHECK(plan.units[0].overrides.reshard_after_forward == false);
}

TEST_CASE("scopes do not nest, but follow each other", "[wrap][context][errors]") {
  const Model model = nested_sequential();
  WrapContext context(model);
  {
    const auto scope = context.enable_wrap({.mixed_precision = true});
    REQUIRE(scope.ok());
    check_refused(context.enable_wrap().status(), Code::not_supported, "end that one first");
    WrapContext other(model);
    CHECK(other.enable_wrap().ok());
  }
  const auto scope = context.enable_wrap();
  REQUIRE(scope.ok());
  REQUIRE(context.wrap("0").ok());
  CHECK(unit_at(model, plan_of(context), "0").overrides.empty());
}

TEST_CASE("what is wrapped already is not wrapped again", "[wrap][context][errors]") {
  const Model model = nested_sequential();
  WrapContext context(model);
  const auto scope = context.enable_wrap();
  REQUIRE(context.wrap("2").ok());
  check_refused(context.wrap("2"), Code::invalid_argument, "\"2\" is a unit already");
  check_refused(context.wrap("2.0"), Code::invalid_argument, "\"2.0\" lies in \"2\"");
  check_refused(context.wrap("7"), Code::invalid_argument, "\"7\" is no module of nested");
  check_refused(context.override_module("7", {}), Code::invalid_argument, "no module of nested");
}

TEST_CASE("an ignored module that contains a unit is refused", "[wrap][context][errors]") {
  const Model model = nested_sequential();
  WrapContext context(model);
  const auto scope = context.enable_wrap();
  REQUIRE(context.wrap("2.0").ok());
  test::check_refused(context.plan({.ignored_modules = {"2"}}), "\"2.0\" is a unit");
  CHECK(plan_of(context, {.ignored_modules = {"1"}}).ignored.size() == 2);
}

}  // namespace tessera::test
