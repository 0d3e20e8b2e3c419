/** Users as another system exports them. */
export interface OldSystem {
  /** The files of its export, by path, in exactly the form of that system. */
  readonly files: Readonly<Record<string, string>>
  /** Who is expected in this service, in the order of the files. */
  readonly users: readonly {
    readonly name: string
    readonly email: string
    /** Undefined where the export has none. */
    readonly created_at?: string
    /** Undefined for a user who has none. */
    readonly password?: string
  }[]
}

const ANN = { name: 'Ann Lee', email: 'ann@example.com', created_at: '2023-07-22T04:26:40.123Z' }
const BOB = { name: 'bob', email: 'bob@example.com', created_at: '2024-02-29T23:59:59.000Z' }

/** Lines of JSON. */
function lines(...rows: readonly object[]): string {
  return rows.map(row => `${JSON.stringify(row)}\n`).join('')
}

function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2)
}

/**
 * By their headings in docs/moving-in.md. Digests of bcrypt were made with libxcrypt 4.4 and bcrypt of Rust, PBKDF2 of Keycloak with Python's
 * hashlib; all others are published with their passwords by the system itself or its users.
 */
export const OLD_SYSTEMS: Readonly<Record<string, OldSystem>> = {
  Auth0: {
    files: {
      'hashes.json': lines(
        {
          _id: { $oid: '5dea9f9c82dd7c0e76e4ec93' },
          email_verified: false,
          email: 'ann@example.com',
          passwordHash: '$2b$10$nZvKPlv/oO/vZJ6isyUfcu2eh4yj6g0O1wQvc.fOtcv5hxflg0tK2',
          password_set_date: { $date: '2023-07-22T04:26:40.123Z' },
          tenant: 'demo',
          connection: 'Username-Password-Authentication',
          _tmp_is_unique: true,
        },
        {
          _id: { $oid: '5dea9f9c82dd7c0e76e4ec94' },
          email: 'cem@example.com',
          passwordHash: '$2b$10$aV7bCq0ZrT3kYwLm9sXn1.cynjfahMNfezXePlD55gBT6RR6PnpzC',
          connection: 'Username-Password-Authentication',
          alt_id: 'euclid',
        },
      ),
      'users.json': lines(
        {
          user_id: 'auth0|5dea9f9c82dd7c0e76e4ec93',
          email: 'ann@example.com',
          name: 'Ann Lee',
          created_at: '2023-07-22T04:26:40.123Z',
        },
        {
          user_id: 'google-oauth2|1000000000000000000',
          email: 'bob@example.com',
          name: 'bob',
          created_at: '2024-02-29T23:59:59.000Z',
          blocked: false,
        },
        {
          user_id: 'auth0|euclid',
          email: 'cem@example.com',
          name: 'cem@example.com',
          created_at: '2024-03-01T00:00:00.000Z',
        },
        {
          user_id: 'auth0|5dea9f9c82dd7c0e76e4ec95',
          email: 'eve@example.com',
          name: 'Eve',
          blocked: true,
        },
      ),
    },
    users: [
      { ...ANN, password: 'correct horse' },
      BOB,
      {
        name: 'cem@example.com',
        email: 'cem@example.com',
        created_at: '2024-03-01T00:00:00.000Z',
        password: 'correct horse',
      },
    ],
  },

  Firebase: {
    files: {
      'users.json': `{"users": [\n${[
        {
          localId: 'x1',
          email: 'ann@example.com',
          emailVerified: true,
          passwordHash:
            'lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==',
          salt: '42xEC+ixf3L2lw==',
          displayName: 'Ann Lee',
          lastSignedInAt: '1700000000000',
          createdAt: '1690000000123',
          disabled: false,
          providerUserInfo: [],
        },
        {
          localId: 'x2',
          email: 'bob@example.com',
          emailVerified: true,
          createdAt: '1709251199000',
          providerUserInfo: [{ providerId: 'google.com', rawId: '100', email: 'bob@example.com' }],
        },
        { localId: 'x3', email: 'eve@example.com', createdAt: '1709251199000', disabled: true },
      ]
        .map(pretty)
        .join(',\n')}]}`,
    },
    users: [{ ...ANN, password: 'user1password' }, BOB],
  },

  Keycloak: {
    files: {
      'export/demo-federated-users-0.json': JSON.stringify({
        realm: 'demo',
        federatedUsers: [
          {
            id: 'f:22222222-2222-2222-2222-222222222222:bob',
            credentials: [],
            disableableCredentialTypes: [],
            requiredActions: [],
            realmRoles: ['default-roles-demo'],
            notBefore: 0,
            groups: [],
          },
        ],
      }),
      'export/demo-realm.json': pretty({ id: 'demo', realm: 'demo', enabled: true }),
      'export/demo-users-0.json': pretty({
        realm: 'demo',
        users: [
          {
            id: '11111111-1111-1111-1111-111111111111',
            username: 'ann',
            firstName: 'Ann',
            lastName: 'Lee',
            email: 'ann@example.com',
            emailVerified: true,
            createdTimestamp: 1690000000123,
            enabled: true,
            totp: true,
            credentials: [
              {
                id: '2',
                type: 'otp',
                secretData: '{"value":"JBSWY3DPEHPK3PXP"}',
                credentialData: '{"subType":"totp","digits":6,"period":30,"algorithm":"HmacSHA1"}',
              },
              {
                id: '3',
                type: 'password',
                createdDate: 1690000000123,
                secretData:
                  '{"value":"xKjWvB9+0sSP6wTqI1JoEI7w+iA0x9VDhPgmrOHRG80=","salt":"LRScGShC7shkdoU5B1UgUQ==","additionalParameters":{}}',
                credentialData:
                  '{"hashIterations":5,"algorithm":"argon2","additionalParameters":{"hashLength":["32"],"memory":["7168"],"type":["id"],"version":["1.3"],"parallelism":["1"]}}',
              },
            ],
            realmRoles: ['default-roles-demo'],
            groups: [],
          },
          {
            username: 'bob',
            email: 'bob@example.com',
            createdTimestamp: 1709251199000,
            enabled: true,
            credentials: [],
            federatedIdentities: [{ identityProvider: 'google', userId: '100', userName: 'bob' }],
          },
        ],
      }),
      'export/demo-users-1.json': pretty({
        realm: 'demo',
        users: [
          {
            username: 'cem',
            email: 'cem@example.com',
            createdTimestamp: 1709251200000,
            enabled: true,
            credentials: [
              {
                type: 'password',
                secretData:
                  '{"value":"qnA427fe69fAjkevcHZvnm7vp3MewnxKL4g2WLfI7U6teQVH1eR2L5DfcV0psPIfjGPtlZbkpnogYX+2TaSl6w==","salt":"AAECAwQFBgcICQoLDA0ODw==","additionalParameters":{}}',
                credentialData:
                  '{"hashIterations":27500,"algorithm":"pbkdf2-sha256","additionalParameters":{}}',
              },
            ],
          },
          {
            username: 'eve',
            email: 'eve@example.com',
            createdTimestamp: 1709251200000,
            enabled: false,
          },
        ],
      }),
    },
    users: [
      { ...ANN, password: 'secret' },
      BOB,
      {
        name: 'cem',
        email: 'cem@example.com',
        created_at: '2024-03-01T00:00:00.000Z',
        password: 'correct horse',
      },
    ],
  },

  Cognito: {
    files: {
      'users.json': pretty([
        {
          name: 'Ann Lee',
          email: 'ann@example.com',
          created_at: '2023-07-22T04:26:40.123000+00:00',
        },
        { name: null, email: 'bob@example.com', created_at: '2024-03-01T05:29:59+05:30' },
      ]),
    },
    users: [ANN, BOB],
  },

  Supabase: {
    files: {
      'users.csv': `name,email,password_digest,created_at
Ann Lee,ann@example.com,$2a$10$aV7bCq0ZrT3kYwLm9sXn1.cynjfahMNfezXePlD55gBT6RR6PnpzC,2023-07-22 04:26:40.123456+00
,bob@example.com,"",2024-02-29 23:59:59+00
`,
    },
    users: [{ ...ANN, password: 'correct horse' }, BOB],
  },

  Django: {
    files: {
      'users.json': JSON.stringify([
        {
          model: 'auth.user',
          pk: 1,
          fields: {
            password: 'pbkdf2_sha256$600000$seasalt$OAXyhAQ/4ZDA9V5RMExt3C1OwQdUpLZ99vm1McFlLRA=',
            last_login: null,
            is_superuser: false,
            username: 'ann',
            first_name: 'Ann',
            last_name: 'Lee',
            email: 'ann@example.com',
            is_staff: false,
            is_active: true,
            date_joined: '2023-07-22T04:26:40.123Z',
            groups: [],
            user_permissions: [],
          },
        },
        {
          model: 'auth.user',
          pk: 2,
          fields: {
            password: '!JgyjLqnQQbOhiMl1Ms8kYzaVNSIQeBZVrzsYz9tO',
            username: 'bob',
            first_name: '',
            last_name: '',
            email: 'bob@example.com',
            is_active: true,
            date_joined: '2024-02-29T23:59:59Z',
          },
        },
        {
          model: 'auth.user',
          pk: 3,
          fields: {
            password: 'pbkdf2_sha256$600000$seasalt$OAXyhAQ/4ZDA9V5RMExt3C1OwQdUpLZ99vm1McFlLRA=',
            username: 'eve',
            first_name: '',
            last_name: '',
            email: 'eve@example.com',
            is_active: false,
            date_joined: '2024-02-29T23:59:59Z',
          },
        },
      ]),
    },
    users: [{ ...ANN, password: 'lètmein' }, BOB],
  },

  'Rails (Devise)': {
    files: {
      'users.csv': `name,email,password_digest,created_at
Ann Lee,ann@example.com,$2a$12$hQ2dEr5uJf8pKc1xBv6Mz.EkFvxYKt8FduLE6DyzIJWXo0mgYDPUO,2023-07-22 04:26:40.123456+00
bob,bob@example.com,"",2024-02-29 23:59:59+00
`,
    },
    users: [{ ...ANN, password: 'correct horse' }, BOB],
  },

  WordPress: {
    files: {
      'wordpress.csv': `display_name,user_email,user_pass,user_registered
"Ann Lee",ann@example.com,$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0,"2023-07-22 04:26:40"
bob,bob@example.com,$wp$2y$10$gN3SQdbNc/cVlK7DylUiVumiuujud7lR0h5J4M2ZsNRMYOFbED16q,"2024-02-29 23:59:59"
`,
    },
    users: [
      { ...ANN, created_at: '2023-07-22T04:26:40.000Z', password: 'test12345' },
      { ...BOB, password: 'Test123Now!' },
    ],
  },

  Laravel: {
    files: {
      'users.ndjson': lines(
        {
          name: 'Ann Lee',
          email: 'ann@example.com',
          created_at: '2023-07-22T04:26:40.123000Z',
          password_digest: '$2y$12$Tn4gWs7yLo0aHd3jRk5PbeL4SvVy2d5HRawuXgg0tnz1yaybfDTMe',
        },
        { name: 'bob', email: 'bob@example.com', created_at: null, password_digest: null },
      ),
    },
    users: [
      { ...ANN, password: 'correct horse' },
      { name: 'bob', email: 'bob@example.com' },
    ],
  },

  'ASP.NET Identity': {
    files: {
      'users.csv': `\ufeff${[
        '"name","email","password_digest"',
        '"ann","ann@example.com","AQAAAAIAAAD6AAAAIJbVi5wbMR+htSfFp8fTw8N8GOS/Sje+S/4YZcgBfU7EQuqv4OkVYmc4VJl9AGZzmRTxSkP7LtVi9IWyUxX8IAAfZ8v+ZfhjCcudtC1YERSqE1OEdXLW9VukPuJWBBjLuw=="',
        '"bob","bob@example.com",',
        '"cem","cem@example.com","AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggHIVY0sdEUfdyeM+E1LtH1uJg=="',
        '',
      ].join('\r\n')}`,
    },
    users: [
      { name: 'ann', email: 'ann@example.com', password: 'my password' },
      { name: 'bob', email: 'bob@example.com' },
      { name: 'cem', email: 'cem@example.com', password: 'my password' },
    ],
  },

  Meteor: {
    files: {
      'meteor.json': lines(
        {
          _id: 'Xy7Qp2LmXy7Qp2Lm1',
          createdAt: { $date: '2023-07-22T04:26:40.123Z' },
          services: {
            password: { bcrypt: '$2y$04$kHb1tbtzv4mbt5lgv7SZUuaqNDmoTUs.IfP.Ltw6OBnEe1bAkEs/i' },
            resume: { loginTokens: [] },
          },
          emails: [{ address: 'ann@example.com', verified: true }],
          profile: { name: 'Ann Lee' },
        },
        {
          _id: 'Xy7Qp2LmXy7Qp2Lm2',
          createdAt: { $date: { $numberLong: '1709251199000' } },
          services: { google: { id: '100', email: 'bob@example.com' } },
          emails: [{ address: 'bob@example.com', verified: false }],
          profile: {},
        },
      ),
    },
    users: [{ ...ANN, password: 'correct horse' }, BOB],
  },

  MongoDB: {
    files: {
      'users.ndjson': lines(
        {
          _id: { $oid: '64bb5a40e4b0a1a2b3c4d5e6' },
          name: 'Ann Lee',
          email: 'ann@example.com',
          password: '$2b$10$nZvKPlv/oO/vZJ6isyUfcu2eh4yj6g0O1wQvc.fOtcv5hxflg0tK2',
          createdAt: { $date: '2023-07-22T04:26:40.123Z' },
          updatedAt: { $date: '2023-07-23T04:26:40.123Z' },
          __v: 0,
        },
        {
          _id: { $oid: '64bb5a40e4b0a1a2b3c4d5e7' },
          name: 'bob',
          email: 'bob@example.com',
          createdAt: { $date: { $numberLong: '1709251199000' } },
          updatedAt: { $date: { $numberLong: '1709251199000' } },
          __v: 0,
        },
      ),
    },
    users: [{ ...ANN, password: 'correct horse' }, BOB],
  },

  MySQL: {
    files: {
      'users.tsv': [
        'name\temail\tpassword_digest\tcreated_at',
        'Ann Lee\tann@example.com\t$2y$04$OIcjJ5HcaIvrRhJZULq1zeCH0v7788ol0J/PrOx/K4kUPKe0PH/ii\t2023-07-22T04:26:40Z',
        'back\\\\slash "bob"\tbob@example.com\tNULL\t2024-02-29T23:59:59Z',
        '',
      ].join('\n'),
    },
    users: [
      { ...ANN, created_at: '2023-07-22T04:26:40.000Z', password: 'correct horse' },
      { ...BOB, name: 'back\\slash "bob"' },
    ],
  },

  PostgreSQL: {
    files: {
      'users.tsv': [
        'name\temail\tpassword_digest\tcreated_at',
        'Ann Lee\tann@example.com\t$2y$04$OIcjJ5HcaIvrRhJZULq1zeCH0v7788ol0J/PrOx/K4kUPKe0PH/ii\t2023-07-22 04:26:40.123456+00',
        '"bob"\tbob@example.com\t\\N\t2024-02-29 23:59:59+00',
        '',
      ].join('\n'),
    },
    users: [
      { ...ANN, password: 'correct horse' },
      { ...BOB, name: '"bob"' },
    ],
  },

  'A spreadsheet': {
    files: {
      'users.csv': `\ufeff${[
        'Full name;E-Mail;Phone;Password;',
        'Ann Lee;ann@example.com;+44 20 7946 0000;correct horse;',
        ';;;;',
        '"Lee; Bob";bob@example.com',
        '',
      ].join('\r\n')}`,
    },
    users: [
      { name: 'Ann Lee', email: 'ann@example.com', password: 'correct horse' },
      { name: 'Lee; Bob', email: 'bob@example.com' },
    ],
  },
}
