import type {
  IdempotencyClaim,
  NewUser,
  StoredUser,
  UserRepository,
} from '../../src/users/user-repository.ts'
import { takenEmail } from '../../src/users/user-schemas.ts'

/** Creates one user. Throws `email_taken`. */
export async function createUser(
  { create }: Pick<UserRepository, 'create'>,
  user: NewUser,
  claim?: IdempotencyClaim,
): Promise<StoredUser> {
  const [made] = await create([user], claim)
  if (made === undefined) throw takenEmail()
  return made
}
