// @ts-check
/// <reference path="./types/globals.d.ts" />
// The JSON constant that Python writes before the bundle.

export const { style: STYLE, glossary: GLOSSARY } = GIVEN;
