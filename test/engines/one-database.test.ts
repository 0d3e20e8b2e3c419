import { describe } from 'vitest'
import { describeOneDatabase } from './one-database.ts'

describe('two services of one PostgreSQL database', describeOneDatabase)
