// @ts-check
/// <reference path="./types/globals.d.ts" />
// What Python writes before the bundle, as one constant of JSON.

export const { style: STYLE, glossary: GLOSSARY } = GIVEN;
