import assert from "node:assert/strict";
import test from "node:test";
import { compare, grouped, isNegative, isZero, multiply, negate, price, sum, thousandths } from "../src/text/decimal";

const SMALLEST = "0.000000000000000001";
const LARGEST = "999999999999999999.999999999999999999";

test("18 digits on either side of the point are shown unchanged", () => {
  assert.equal(grouped(SMALLEST), SMALLEST);
  assert.equal(grouped(LARGEST), "999,999,999,999,999,999.999999999999999999");
  assert.equal(price(LARGEST), "999,999,999,999,999,999.999999999999999999");
  assert.equal(grouped("123456789012345678"), "123,456,789,012,345,678");
});

test("a price has two digits after the point and loses none", () => {
  assert.equal(price("187"), "187.00");
  assert.equal(price("187.5"), "187.50");
  assert.equal(price("-1187.455"), "-1,187.455");
  assert.equal(price("0.000000000000000001"), SMALLEST);
});

test("numbers are compared as numbers, also where a float cannot tell them apart", () => {
  assert.ok(compare("10", "9") > 0);
  assert.equal(compare("1.50", "1.5"), 0);
  assert.ok(compare("999999999999999999.000000000000000001", "999999999999999999") > 0);
  assert.ok(compare("-2", "1") < 0);
});

test("a sum is exact", () => {
  assert.equal(sum(["0.1", "0.2"]), "0.3");
  assert.equal(sum([LARGEST, SMALLEST]), "1000000000000000000");
  assert.equal(sum(["5", "-7.5"]), "-2.5");
  assert.equal(sum([]), "0");
});

test("a product is exact", () => {
  assert.equal(multiply("187.50", "10"), "1875");
  assert.equal(multiply(SMALLEST, SMALLEST), `0.${"0".repeat(35)}1`);
});

test("the sign and zero are read from the digits", () => {
  assert.equal(isZero("0.000"), true);
  assert.equal(isZero(SMALLEST), false);
  assert.equal(isNegative("-0.00"), false);
  assert.equal(isNegative("-0.01"), true);
  assert.equal(negate("5"), "-5");
  assert.equal(negate("-5"), "5");
  assert.equal(negate("0"), "0");
});

test("the length of a bar is bounded, and undefined without a whole", () => {
  assert.equal(thousandths("4", "10"), 400);
  assert.equal(thousandths(LARGEST, SMALLEST), 100_000);
  assert.equal(thousandths("1", "0"), undefined);
  assert.equal(thousandths("-1", "10"), 0);
});

test("what is no plain decimal is shown as it came", () => {
  assert.equal(grouped("1e5"), "1e5");
  assert.equal(price("n/a"), "n/a");
});
