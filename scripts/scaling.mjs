// Writes docs/performance.md and docs/scaling.md again from bench/measured.json, after a change of what bench/scaling.mjs assumes.
import { writeDocuments } from '../bench/documents.mjs'
import { readMeasured } from '../bench/measured.mjs'

writeDocuments(readMeasured())
