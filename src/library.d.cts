/** The types of `library.ts` for CommonJS, where a declaration may take no more than types from an ES module. */

import type * as library from './library.js' with { 'resolution-mode': 'import' }

export type * from './library.js' with { 'resolution-mode': 'import' }
export type OperatorError = library.OperatorError
export declare const OperatorError: typeof library.OperatorError
export declare const createUserRecords: typeof library.createUserRecords
export declare const defineLimits: typeof library.defineLimits
